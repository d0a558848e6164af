// Servers with scripted responses, and clients with the documented defaults.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { TestContext } from "node:test";
import type { TlsOptions } from "node:tls";
import { HttpClient, type HttpClientOptions } from "#client/http.ts";
import type { HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import { realClock } from "../kit/sluice/port.ts";

export const NO_PROXY: ProxySettings = { http: "", https: "", no_proxy: [] };

export type ClientOverrides = Partial<Omit<HttpClientSettings, "tls">> & {
  readonly tls?: Partial<HttpClientSettings["tls"]>;
};

export function clientSettings({ tls, ...over }: ClientOverrides = {}): HttpClientSettings {
  return {
    disable_compression: false,
    disable_keep_alives: false,
    idle_connection_timeout: 90_000,
    key_log_file: "",
    max_conns_per_host: 0,
    max_idle_connections: 100,
    max_idle_connections_per_host: 5,
    max_response_header_bytes: 0,
    network_keep_alive: 30_000,
    network_timeout: 30_000,
    response_header_timeout: 0,
    tls_handshake_timeout: 10_000,
    timeout: 60_000,
    use_proxy: false,
    proxy_connect_header: {},
    tls: {
      ca_file: "",
      cert_file: "",
      key_file: "",
      insecure_skip_verify: false,
      key_log_file: "",
      ...tls,
    },
    ...over,
  };
}

/** A client that is closed when the test ends. */
export function caller(
  test: TestContext,
  over: ClientOverrides = {},
  options: Partial<HttpClientOptions> = {},
): HttpClient {
  const settings = clientSettings(over);
  const http = new HttpClient({
    settings,
    key: "http_client",
    proxy: NO_PROXY,
    env: {},
    clock: realClock,
    ...options,
  });
  test.after(() => http.close());
  return http;
}

export interface Heard {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface FakeServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  readonly port: number;
  readonly heard: readonly Heard[];
  /** Number of connections ever made, and of open ones. */
  readonly made: number;
  readonly open: number;
  /** Hands over what CONNECT asks for. */
  onConnect(answer: (request: IncomingMessage, socket: Socket) => void): void;
}

export type Answering = (heard: Heard, reply: ServerResponse) => void;

/** Cut when the test ends. */
export async function fakeServer(
  test: TestContext,
  answer: Answering,
  tls?: TlsOptions,
): Promise<FakeServer> {
  const heard: Heard[] = [];
  const sockets = new Set<Socket>();
  let made = 0;
  const listener = (request: IncomingMessage, reply: ServerResponse) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => {
      body += chunk;
    });
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const each = { method, url, headers, body };
      heard.push(each);
      answer(each, reply);
    });
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.on("connection", (socket: Socket) => {
    made += 1;
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    port,
    heard,
    get made() {
      return made;
    },
    get open() {
      return sockets.size;
    },
    onConnect: (take) =>
      server.on("connect", (request: IncomingMessage, socket: Socket) => take(request, socket)),
  };
}

/** A vector of one, as the API has it. */
export function vectorOf(value: string | number, labels: Readonly<Record<string, string>> = {}) {
  const sample = { metric: labels, value: [1_700_000_000, String(value)] };
  return { status: "success", data: { resultType: "vector", result: [sample] } };
}

export function send(reply: ServerResponse, status: number, body: unknown): void {
  reply.writeHead(status, { "content-type": "application/json" });
  reply.end(typeof body === "string" ? body : JSON.stringify(body));
}

export async function fakeProxy(t: TestContext, status = 200) {
  const tunnels: { readonly to: string; readonly headers: Readonly<Record<string, unknown>> }[] =
    [];
  const proxy = await fakeServer(t, ({ url, headers }, reply) => {
    reply.end(`forwarded ${url} ${headers.host} ${headers["proxy-authorization"] ?? "-"}`);
  });
  proxy.onConnect((request, socket) => {
    tunnels.push({ to: request.url ?? "", headers: request.headers });
    if (status !== 200) {
      socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
      return;
    }
    const [host = "", port] = (request.url ?? "").split(":");
    const far = connect(Number(port), host);
    far.on("error", () => socket.destroy()).on("close", () => socket.destroy());
    t.after(() => far.destroy());
    socket.on("error", () => far.destroy()).on("close", () => far.destroy());
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    far.pipe(socket).pipe(far);
  });
  return { ...proxy, tunnels, heard: proxy.heard };
}
