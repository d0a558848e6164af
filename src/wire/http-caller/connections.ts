// Connections of one caller: kept between calls within the limits of its settings, straight to a server,
// through a tunnel of a proxy, or to a proxy that forwards.

import type { Socket } from "node:net";
import type { buildConnector, Client, Dispatcher } from "undici";
import { Fault } from "#base/fault.ts";
import type { HttpClientSettings } from "../http-caller.ts";
import type { Tls } from "./tls.ts";

type Undici = typeof import("undici");
type Connector = buildConnector.connector;

export interface Request {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
  readonly signal: AbortSignal;
}

/** One place of a pool: its client and the connection that it has now. */
interface Slot {
  readonly origin: string;
  readonly client: Client;
  socket: Socket | undefined;
}

/** What the library takes as "no limit". */
const FOR_EVER_MS = 2 ** 31 - 1;
/** Bounds what "no limit" means for the headers of a reply. */
const MOST_HEADER_BYTES = 10 * 1024 * 1024;

export class Connections {
  readonly #undici: Undici;
  readonly #settings: HttpClientSettings;
  readonly #tls: Tls;
  /** By the proxy that their tunnels go through; "" has the straight ones. */
  readonly #agents = new Map<string, Dispatcher>();
  readonly #sockets = new Set<Socket>();
  #slots: Slot[] = [];

  constructor(undici: Undici, settings: HttpClientSettings, tls: Tls) {
    this.#undici = undici;
    this.#settings = settings;
    this.#tls = tls;
  }

  request(url: URL, proxy: URL | undefined, request: Request): Promise<Dispatcher.ResponseData> {
    const { origin } = url;
    const path = url.pathname + url.search;
    if (proxy === undefined || url.protocol === "https:") {
      return this.#agent(proxy).request({ ...request, origin, path });
    }
    const headers = { ...request.headers, ...credentials(proxy), host: url.host };
    const forwarded = { ...request, headers, origin: proxy.origin, path: origin + path };
    return this.#agent(undefined).request(forwarded);
  }

  /** Closes idle connections beyond the limits. Call it when a reply was read. */
  tidy(): void {
    const { max_idle_connections: all, max_idle_connections_per_host: each } = this.#settings;
    this.#slots = this.#slots.filter(({ client }) => !client.closed && !client.destroyed);
    const perHost = new Map<string, number>();
    let idle = 0;
    for (const { client, origin, socket } of this.#slots) {
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
    const gone = new Fault("CANCELLED", "the caller was closed");
    await Promise.all(agents.map((agent) => agent.destroy(gone)));
    for (const socket of this.#sockets) socket.destroy();
  }

  #agent(tunnel: URL | undefined): Dispatcher {
    const key = tunnel?.href ?? "";
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const straight = this.#straight();
    const agent = this.#pooled(tunnel === undefined ? straight : this.#through(tunnel, straight));
    this.#agents.set(key, agent);
    return agent;
  }

  #pooled(connector: Connector): Dispatcher {
    const { Agent, Client, Pool } = this.#undici;
    const { max_conns_per_host: most } = this.#settings;
    const options = { ...this.#clientOptions(), connections: most > 0 ? most : null };
    const client = (at: URL, given: Client.Options) => {
      const connect: Connector = (to, done) =>
        connector(to, (...[error, socket]) => {
          if (error !== null) return done(error, null);
          slot.socket = socket;
          done(null, socket);
        });
      const slot: Slot = {
        origin: at.origin,
        client: new Client(at, { ...given, connect }),
        socket: undefined,
      };
      this.#slots.push(slot);
      return slot.client;
    };
    return new Agent({
      ...options,
      factory: (at) => new Pool(at, { ...options, factory: client }),
    });
  }

  #clientOptions() {
    const settings = this.#settings;
    const idleMs = Math.ceil(settings.idle_connection_timeout) || FOR_EVER_MS;
    return {
      allowH2: false,
      headersTimeout: Math.ceil(settings.response_header_timeout),
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      maxHeaderSize: settings.max_response_header_bytes || MOST_HEADER_BYTES,
      pipelining: settings.disable_keep_alives ? 0 : 1,
    };
  }

  /** Two steps, since connecting and the handshake have a timeout each. */
  #straight(): Connector {
    const { network_keep_alive: probes, network_timeout: timeout } = this.#settings;
    const tcp = this.#undici.buildConnector({
      timeout: Math.ceil(timeout),
      keepAlive: probes >= 0,
      // As long as the platform's usual delay where 0 leaves it open.
      keepAliveInitialDelay: probes > 0 ? Math.ceil(probes) : 15_000,
    });
    const handshake = this.#handshake();
    return (to, done) =>
      this.#tracked(tcp, { ...to, protocol: "http:" }, (...[error, socket]) => {
        if (error !== null) done(error, null);
        else if (to.protocol === "https:") handshake({ ...to, httpSocket: socket }, done);
        else done(null, socket);
      });
  }

  #handshake(): Connector {
    const { secureContext, rejectUnauthorized } = this.#tls;
    const tls = this.#undici.buildConnector({
      secureContext,
      rejectUnauthorized,
      allowH2: false,
      timeout: Math.ceil(this.#settings.tls_handshake_timeout),
    });
    return (to, done) => this.#tracked(tls, to, done);
  }

  /** Every socket is known from its first moment on, so that closing leaves none behind. */
  #tracked(connector: Connector, to: buildConnector.Options, done: buildConnector.Callback): void {
    // The library gives the socket back at once, which its types do not say.
    const socket = (connector as (...given: Parameters<Connector>) => unknown)(to, done) as Socket;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    this.#tls.keep(socket);
  }

  /** Asks the proxy for a tunnel with CONNECT, and speaks TLS with the server through it. */
  #through(proxy: URL, straight: Connector): Connector {
    const handshake = this.#handshake();
    return (to, done) => {
      this.#tunnel(proxy, straight, to).then(
        (socket) => handshake({ ...to, httpSocket: socket }, done),
        (thrown: unknown) =>
          done(thrown instanceof Error ? thrown : new Error(String(thrown)), null),
      );
    };
  }

  async #tunnel(proxy: URL, connect: Connector, to: buildConnector.Options): Promise<Socket> {
    const client = new this.#undici.Client(proxy.origin, {
      ...this.#clientOptions(),
      connect,
      headersTimeout: Math.ceil(this.#settings.network_timeout),
    });
    const path = `${to.hostname}:${to.port || "443"}`;
    const { proxy_connect_header: extra } = this.#settings;
    const headers = { host: path, ...credentials(proxy), ...lists(extra) };
    const { statusCode, socket } = await client.connect({ path, headers });
    if (statusCode === 200) return socket as Socket;
    socket.on("error", () => undefined).destroy();
    throw new Fault("UNAVAILABLE", `the proxy answered CONNECT with status ${statusCode}`);
  }
}

function lists(headers: Readonly<Record<string, readonly string[]>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, [...values]]));
}

function credentials(proxy: URL): Record<string, string> {
  const basic = basicOf(proxy);
  return basic === undefined ? {} : { "proxy-authorization": basic };
}

/** Credentials that a URL holds, as the header's value. */
export function basicOf({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  const both = `${bytesOf(username)}:${bytesOf(password)}`;
  return `Basic ${Buffer.from(both, "latin1").toString("base64")}`;
}

/** Each character a byte. A percent sign that encodes nothing stands for itself, as in the URL. */
function bytesOf(part: string): string {
  return part.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
