// Calls other servers over HTTP with the documented keys of a client: timeouts, TLS, proxies, limits of
// connections. Replies are read whole and bounded. The library is imported with the first call.

import { setImmediate } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { basicOf, Connections } from "./http-caller/connections.ts";
import { faultOf } from "./http-caller/fault.ts";
import { type Route, routeOf } from "./http-caller/proxy.ts";
import { readBody } from "./http-caller/reply.ts";
import { openTls, type Tls } from "./http-caller/tls.ts";

/** ClientTLSConfig. */
export interface ClientTlsSettings {
  /** Empty: the authorities of the platform. */
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  readonly insecure_skip_verify: boolean;
  readonly key_log_file: string;
}

/** ProxyConfig. */
export interface ProxySettings {
  /** A URL or host:port; empty is none. */
  readonly http: string;
  readonly https: string;
  readonly no_proxy: readonly string[];
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** HTTPClientConfig; milliseconds. 0 is no limit. */
export interface HttpClientSettings {
  readonly disable_compression: boolean;
  readonly disable_keep_alives: boolean;
  readonly idle_connection_timeout: number;
  readonly key_log_file: string;
  readonly max_conns_per_host: number;
  readonly max_idle_connections: number;
  readonly max_idle_connections_per_host: number;
  readonly max_response_header_bytes: number;
  /** Below 0: no probes. */
  readonly network_keep_alive: number;
  readonly network_timeout: number;
  readonly response_header_timeout: number;
  readonly tls_handshake_timeout: number;
  readonly timeout: number;
  readonly use_proxy: boolean;
  readonly proxy_connect_header: Readonly<Record<string, readonly string[]>>;
  readonly tls: ClientTlsSettings;
}

export interface HttpCallerOptions {
  readonly settings: HttpClientSettings;
  /** Used where `use_proxy` is set. */
  readonly proxy: ProxySettings;
  /** HTTP_PROXY, HTTPS_PROXY and NO_PROXY are looked up here where `proxy` sets nothing. */
  readonly env: Environment;
  readonly clock: Clock;
  /** Most bytes of a reply, unpacked. */
  readonly maxBodyBytes?: number;
}

export interface HttpCall {
  readonly method: "GET" | "POST";
  /** Credentials in it are sent as basic authentication. */
  readonly url: string;
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Where it is shorter than `timeout` of the settings. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface HttpReply {
  readonly status: number;
  /** Lower-case names; repeated ones are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Far above any answer of use, far below what hurts. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const MAX_REDIRECTS = 10;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Not for the eyes of another server than the one that they were meant for. */
const PRIVATE: ReadonlySet<string> = new Set(["authorization", "cookie", "proxy-authorization"]);

interface Step {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
}

export class HttpCaller {
  readonly #options: HttpCallerOptions;
  readonly #tls: Tls;
  readonly #route: Route;
  #connections: Promise<Connections> | undefined;
  #closed = false;

  /** Throws a Fault for files that cannot be used: no call is ever made with less than was asked for. */
  constructor(options: HttpCallerOptions) {
    const { settings, proxy, env } = options;
    this.#options = options;
    this.#tls = openTls(settings.tls, settings.key_log_file);
    this.#route = settings.use_proxy ? routeOf(proxy, env) : () => undefined;
  }

  /** Every status is a reply. Throws a Fault: CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE. */
  async call(call: HttpCall): Promise<HttpReply> {
    const step = firstOf(call, this.#options.settings.disable_compression);
    const { signal } = call;
    const over = new AbortController();
    const leave = () => over.abort(new Fault("CANCELLED", "the call was given up"));
    const disarm = this.#limit(call.timeoutMs, step.url, over);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    try {
      return await this.#follow(step, over.signal);
    } catch (thrown) {
      throw over.signal.aborted ? over.signal.reason : thrown;
    } finally {
      disarm();
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Ends calls that are under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await (await this.#connections)?.close();
  }

  #limit(timeoutMs: number | undefined, url: URL, over: AbortController): () => void {
    const { clock, settings } = this.#options;
    const most = Math.min(settings.timeout || Infinity, timeoutMs ?? Infinity);
    if (most === Infinity) return () => undefined;
    return clock.alarm(most, () => {
      over.abort(new Fault("DEADLINE_EXCEEDED", `${url.origin}: no reply within ${most} ms`));
    });
  }

  async #follow(first: Step, signal: AbortSignal): Promise<HttpReply> {
    let step = first;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const reply = await this.#once(step, signal);
      const { location } = reply.headers;
      if (!REDIRECTS.has(reply.status) || location === undefined) return reply;
      step = redirected(step, reply.status, location);
    }
    throw new Fault("UNAVAILABLE", `${first.url.origin}: more than ${MAX_REDIRECTS} redirects`);
  }

  async #once({ method, url, headers, body }: Step, signal: AbortSignal): Promise<HttpReply> {
    const connections = await this.#open();
    signal.throwIfAborted();
    try {
      const request = { method, headers, body, signal };
      const reply = await connections.request(url, this.#route(url), request);
      const heard = flat(reply.headers);
      const most = this.#options.maxBodyBytes ?? MAX_BODY_BYTES;
      const read = await readBody(reply.body, heard["content-encoding"]?.toLowerCase(), most);
      if (REDIRECTS.has(reply.statusCode) && Array.isArray(reply.headers["location"])) {
        throw new Fault("UNAVAILABLE", `${url.origin}: a redirect to several places`);
      }
      return { status: reply.statusCode, headers: heard, body: read };
    } catch (thrown) {
      throw faultOf(thrown, url.origin);
    } finally {
      // The library frees a connection in the turn after the last byte.
      await setImmediate();
      connections.tidy();
    }
  }

  #open(): Promise<Connections> {
    if (this.#closed) throw new Fault("CANCELLED", "the caller was closed");
    this.#connections ??= import("undici").then(
      (undici) => new Connections(undici, this.#options.settings, this.#tls),
    );
    return this.#connections;
  }
}

function firstOf(call: HttpCall, plain: boolean): Step {
  const url = URL.parse(call.url);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new Fault("INVALID_ARGUMENT", "wanted an http:// or https:// URL");
  }
  const basic = basicOf(url);
  const headers = {
    "user-agent": "sluice",
    ...(plain ? {} : { "accept-encoding": "gzip" }),
    ...(basic === undefined ? {} : { authorization: basic }),
    ...call.headers,
  };
  return { method: call.method, url, headers, body: call.body ?? null };
}

/** The same call elsewhere: with its body, as queries need it, unless the server asks to fetch instead. */
function redirected(from: Step, status: number, location: string): Step {
  const url = URL.parse(location, from.url);
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (url === null || !isHttp || (from.url.protocol === "https:" && url.protocol === "http:")) {
    throw new Fault("UNAVAILABLE", `${from.url.origin}: a redirect that is not followed`);
  }
  const kept = Object.entries(from.headers).filter(
    ([name]) => url.origin === from.url.origin || !PRIVATE.has(name),
  );
  if (status !== 303) return { ...from, url, headers: Object.fromEntries(kept) };
  const fetched = kept.filter(([name]) => name !== "content-type");
  return { method: "GET", url, headers: Object.fromEntries(fetched), body: null };
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.toLowerCase(),
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
}
