// HTTP/1.1 and HTTP/2 clients that send a request exactly as given, without a library that would normalise it.

import { Agent, request } from "node:http";
import { connect, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import type { TestContext } from "node:test";

export interface RequestOptions {
  readonly method?: string;
  readonly path?: string;
  /** Values are sent as latin1: one character, one byte. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

export interface ClientReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export type Client = (request?: RequestOptions) => Promise<ClientReply>;

/** A client over HTTP/1.1 of `http://HOST:PORT` or `unix:PATH`, with one connection per concurrent request, at most 100. */
export function http1(test: TestContext, url: string): Client {
  const unix = url.startsWith("unix:");
  const origin = unix ? "http://localhost" : url;
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 100,
    ...(unix && { socketPath: url.slice(5) }),
  });
  test.after(() => agent.destroy());
  return ({ method = "GET", path = "/", headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const sent = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          name,
          typeof value === "string" ? value : [...value],
        ]),
      );
      const outgoing = request(origin + path, { method, headers: sent, agent }, (reply) => {
        let text = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        reply.on("error", reject);
        reply.on("end", () =>
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, body: text }),
        );
      });
      outgoing.on("error", reject);
      outgoing.end(body);
    });
}

/** A client over one cleartext HTTP/2 connection. */
export function http2(test: TestContext, url: string): Client {
  const session = connect(url);
  session.on("error", () => undefined);
  test.after(() => session.destroy());
  return ({ method = "GET", path = "/", headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ":method": method, ":path": path, ...headers });
      let received: IncomingHttpHeaders & IncomingHttpStatusHeader = {};
      let text = "";
      stream.setEncoding("utf8");
      stream.on("response", (headers) => {
        received = headers;
      });
      stream.on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("error", reject);
      stream.on("end", () =>
        resolve({ status: received[":status"] ?? 0, headers: received, body: text }),
      );
      stream.end(body);
    });
}
