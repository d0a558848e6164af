// Connection pools of one HTTP client, within the limits of its settings: direct to a server, through a
// CONNECT tunnel of a proxy, or to a proxy that forwards plain HTTP.

import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import type { buildConnector, Client, Dispatcher } from "undici";
import { Fault } from "#base/fault.ts";
import type { HttpClientSettings } from "../http-settings.ts";
import type { Tls } from "./tls.ts";

type Undici = typeof import("undici");
type Connector = buildConnector.connector;

interface PreparedRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
  readonly signal: AbortSignal;
}

/** One client of a pool and its current connection. */
interface PooledClient {
  readonly origin: string;
  readonly client: Client;
  socket: Socket | undefined;
}

/** The longest timeout that undici accepts: no limit. */
const UNLIMITED_MS = 2 ** 31 - 1;
/** If the setting is 0: unlimited headers could fill memory. */
const MAX_HEADER_BYTES = 10 * 1024 * 1024;

export class Connections {
  readonly #undici: Undici;
  readonly #settings: HttpClientSettings;
  readonly #tls: Tls;
  readonly #unlimited: boolean;
  /** By the URL of the proxy of a tunnel; "" for direct connections. */
  readonly #agents = new Map<string, Dispatcher>();
  readonly #sockets = new Set<Socket>();
  #clients: PooledClient[] = [];

  /** `unlimited`: any number of connections to a host, whatever the settings say. */
  constructor(undici: Undici, settings: HttpClientSettings, tls: Tls, unlimited = false) {
    this.#undici = undici;
    this.#settings = settings;
    this.#tls = tls;
    this.#unlimited = unlimited;
  }

  request(
    url: URL,
    proxy: URL | undefined,
    request: PreparedRequest,
  ): Promise<Dispatcher.ResponseData> {
    const { origin } = url;
    const path = url.pathname + url.search;
    if (proxy === undefined || url.protocol === "https:") {
      return this.#agent(proxy).request({ ...request, origin, path });
    }
    const headers = { ...request.headers, ...proxyAuthorization(proxy), host: url.host };
    const forwarded = { ...request, headers, origin: proxy.origin, path: origin + path };
    return this.#agent(undefined).request(forwarded);
  }

  /** Closes idle connections beyond the limits, which undici does not have. Call it after each response. */
  closeExcessIdle(): void {
    const { max_idle_connections: all, max_idle_connections_per_host: each } = this.#settings;
    this.#clients = this.#clients.filter(({ client }) => !client.closed && !client.destroyed);
    const perHost = new Map<string, number>();
    let idle = 0;
    for (const { client, origin, socket } of this.#clients) {
      if (socket === undefined || socket.destroyed || client.stats.size > 0) continue;
      const here = (perHost.get(origin) ?? 0) + 1;
      if ((each > 0 && here > each) || (all > 0 && idle >= all)) {
        socket.destroy();
      } else {
        perHost.set(origin, here);
        idle += 1;
      }
    }
  }

  async close(): Promise<void> {
    const agents = [...this.#agents.values()];
    const closed = new Fault("CANCELLED", "the HTTP client was closed");
    await Promise.all(agents.map((agent) => agent.destroy(closed)));
    for (const socket of this.#sockets) socket.destroy();
  }

  #agent(tunnel: URL | undefined): Dispatcher {
    const key = tunnel?.href ?? "";
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const direct = this.#direct();
    const agent = this.#pooled(tunnel === undefined ? direct : this.#tunnelled(tunnel, direct));
    this.#agents.set(key, agent);
    return agent;
  }

  #pooled(connector: Connector): Dispatcher {
    const { Agent, Client, Pool } = this.#undici;
    const limit = this.#unlimited ? 0 : this.#settings.max_conns_per_host;
    const options = { ...this.#clientOptions(), connections: limit > 0 ? limit : null };
    const client = (at: URL, given: Client.Options) => {
      const connect: Connector = (to, done) =>
        connector(to, (...[error, socket]) => {
          if (error !== null) return done(error, null);
          pooled.socket = socket;
          done(null, socket);
        });
      const pooled: PooledClient = {
        origin: at.origin,
        client: new Client(at, { ...given, connect }),
        socket: undefined,
      };
      this.#clients.push(pooled);
      return pooled.client;
    };
    return new Agent({
      ...options,
      factory: (at) => new Pool(at, { ...options, factory: client }),
    });
  }

  #clientOptions() {
    const settings = this.#settings;
    const idleMs = Math.ceil(settings.idle_connection_timeout) || UNLIMITED_MS;
    return {
      allowH2: false,
      headersTimeout: Math.ceil(settings.response_header_timeout),
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      maxHeaderSize: settings.max_response_header_bytes || MAX_HEADER_BYTES,
      pipelining: settings.disable_keep_alives ? 0 : 1,
    };
  }

  /** Connects in two steps, because the TCP connection and the TLS handshake have separate timeouts. */
  #direct(): Connector {
    const { network_keep_alive: probes, network_timeout: timeout } = this.#settings;
    const tcp = this.#undici.buildConnector({
      timeout: Math.ceil(timeout),
      keepAlive: probes >= 0,
      // 15 s is the usual delay where 0 leaves it to the platform.
      keepAliveInitialDelay: probes > 0 ? Math.ceil(probes) : 15_000,
    });
    const handshake = this.#handshake();
    return (to, done) => {
      const isSecure = to.protocol === "https:";
      // The connector would choose the port of its own protocol where the URL has none.
      const port = to.port || (isSecure ? "443" : "80");
      this.#tracked(tcp, { ...to, protocol: "http:", port }, (...[error, socket]) => {
        if (error !== null) done(error, null);
        else if (isSecure) handshake({ ...to, httpSocket: socket }, done);
        else done(null, socket);
      });
    };
  }

  #handshake(): Connector {
    const connectorOf = (secureContext: SecureContext): Connector =>
      this.#undici.buildConnector({
        secureContext,
        rejectUnauthorized: this.#tls.rejectUnauthorized,
        allowH2: false,
        timeout: Math.ceil(this.#settings.tls_handshake_timeout),
      });
    let context = this.#tls.secureContext();
    let tls = connectorOf(context);
    return (to, done) => {
      const now = this.#tls.secureContext();
      // A connector keeps TLS sessions, so other certificates need another one.
      if (now !== context) tls = connectorOf(now);
      context = now;
      this.#tracked(tls, to, done);
    };
  }

  /** Registers every socket when it is created, so that `close` leaves none behind. */
  #tracked(connector: Connector, to: buildConnector.Options, done: buildConnector.Callback): void {
    // undici returns the socket immediately, although its types do not declare that.
    const socket = (connector as (...given: Parameters<Connector>) => unknown)(to, done) as Socket;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    this.#tls.logKeys(socket);
  }

  /** Opens a tunnel with CONNECT and makes the TLS handshake with the server through it. */
  #tunnelled(proxy: URL, direct: Connector): Connector {
    const handshake = this.#handshake();
    return (to, done) => {
      this.#openTunnel(proxy, direct, to).then(
        (socket) => handshake({ ...to, httpSocket: socket }, done),
        (thrown: unknown) =>
          done(thrown instanceof Error ? thrown : new Error(String(thrown)), null),
      );
    };
  }

  async #openTunnel(proxy: URL, connect: Connector, to: buildConnector.Options): Promise<Socket> {
    const client = new this.#undici.Client(proxy.origin, {
      ...this.#clientOptions(),
      connect,
      headersTimeout: Math.ceil(this.#settings.network_timeout),
    });
    const path = `${to.hostname}:${to.port || "443"}`;
    const { proxy_connect_header: extra } = this.#settings;
    const headers = { host: path, ...proxyAuthorization(proxy), ...mutable(extra) };
    const { statusCode, socket } = await client.connect({ path, headers });
    if (statusCode === 200) return socket as Socket;
    socket.on("error", () => undefined).destroy();
    throw new Fault("UNAVAILABLE", `the proxy answered CONNECT with status ${statusCode}`);
  }
}

/** A mutable copy, as undici's types demand. */
function mutable(headers: Readonly<Record<string, readonly string[]>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, [...values]]));
}

function proxyAuthorization(proxy: URL): Record<string, string> {
  const basic = basicCredentials(proxy);
  return basic === undefined ? {} : { "proxy-authorization": basic };
}

/** Credentials of a URL as an authorization header; undefined if there are none. */
export function basicCredentials({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  const both = `${bytesOf(username)}:${bytesOf(password)}`;
  return `Basic ${Buffer.from(both, "latin1").toString("base64")}`;
}

/** Percent-decodes to one byte per character. A percent sign that encodes nothing stands for itself. */
function bytesOf(part: string): string {
  return part.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
