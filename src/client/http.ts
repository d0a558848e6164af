// HTTP client with the documented configuration keys: timeouts, TLS, proxies and connection limits. Responses are
// buffered whole, up to a limit. The HTTP library (undici) is imported with the first call.

import { setImmediate } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log, LogFields } from "#base/log.ts";
import { basicCredentials, Connections } from "./http/connections.ts";
import { faultOf } from "./http/fault.ts";
import { type ProxySelector, proxySelector } from "./http/proxy.ts";
import { readBody } from "./http/response.ts";
import { openTls, type Tls, type TlsFallback } from "./http/tls.ts";
import type { Environment, HttpClientSettings, ProxySettings } from "./http-settings.ts";

export interface HttpClientOptions {
  readonly settings: HttpClientSettings;
  /** The configuration key of `settings`, for messages about TLS files. */
  readonly key: string;
  /** Only used when `settings.use_proxy` is set. */
  readonly proxy: ProxySettings;
  /** Supplies HTTP_PROXY, HTTPS_PROXY and NO_PROXY when `proxy` sets nothing. */
  readonly env: Environment;
  readonly clock: Clock;
  /** Logs each call, and changes of certificate files. */
  readonly log?: Pick<Log, "debug" | "info" | "warn">;
  /** Used where the settings name no file. */
  readonly fallback?: TlsFallback;
  /** Ignore `max_conns_per_host`. */
  readonly unlimited?: boolean;
  /** Maximum size of a response body after decompression; 16 MiB by default. */
  readonly maxBodyBytes?: number;
}

export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface HttpClientRequest {
  readonly method: HttpMethod;
  /** Credentials in the URL are sent as basic authentication. */
  readonly url: string;
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Shortens `settings.timeout` for this request; never extends it. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface HttpClientResponse {
  readonly status: number;
  /** Lower-case names; values of repeated headers are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A response whose body is read while it arrives. */
export interface HttpClientStream extends Omit<HttpClientResponse, "body"> {
  /** Read it to its end or leave the loop: either frees the connection. Throws a Fault if the connection breaks. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Far above any useful response, far below a harmful one. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const MAX_REDIRECTS = 10;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Headers that must not follow a redirect to another origin. */
const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "cookie",
  "proxy-authorization",
]);

/** One request of a redirect chain. */
interface Hop {
  readonly method: HttpMethod;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | null;
}

export class HttpClient {
  readonly #options: HttpClientOptions;
  readonly #tls: Tls;
  readonly #proxyFor: ProxySelector;
  #connections: Promise<Connections> | undefined;
  #closed = false;

  /** Throws a Fault for unusable TLS files or proxies. */
  constructor(options: HttpClientOptions) {
    const { settings, key, proxy, env, clock, log, fallback } = options;
    this.#options = options;
    this.#proxyFor = settings.use_proxy ? proxySelector(proxy, env) : () => undefined;
    this.#tls = openTls(settings, { key, clock, log, fallback });
  }

  /**
   * Sends a request, follows redirects and resolves with the response, whatever its status.
   * @throws Fault CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE; INVALID_ARGUMENT for a bad URL
   */
  async call(request: HttpClientRequest): Promise<HttpClientResponse> {
    const first = firstHop(request, this.#options.settings.disable_compression);
    const { signal, disarm, release } = this.#cancellable(request, first.url);
    const started = this.#options.clock.now();
    try {
      const response = await this.#follow(first, signal);
      this.#logCall(first, started, { status: response.status });
      return response;
    } catch (thrown) {
      const fault = signal.aborted ? signal.reason : thrown;
      this.#logCall(first, started, { error: fault });
      throw fault;
    } finally {
      disarm();
      release();
    }
  }

  /**
   * Sends a request and resolves with the response when its headers have arrived. Timeouts end then; the request's
   * signal also ends the body. Redirects are not followed, and the body is not compressed.
   * @throws Fault as `call` does
   */
  async stream(request: HttpClientRequest): Promise<HttpClientStream> {
    const hop = firstHop(request, true);
    const { signal, disarm, release } = this.#cancellable(request, hop.url);
    const started = this.#options.clock.now();
    try {
      const response = await this.#request(hop, signal);
      this.#logCall(hop, started, { status: response.statusCode });
      const body = this.#streamed(response.body, hop.url, signal, release);
      return { status: response.statusCode, headers: joined(response.headers), body };
    } catch (thrown) {
      release();
      const fault = signal.aborted ? signal.reason : thrown;
      this.#logCall(hop, started, { error: fault });
      throw fault;
    } finally {
      disarm();
    }
  }

  /** Omits query, headers and body, which may contain secrets. */
  #logCall({ method, url }: Hop, started: number, result: LogFields): void {
    const { log, clock } = this.#options;
    if (log?.debug === undefined) return;
    const ms = Math.round(clock.now() - started);
    log.debug({ server: url.origin, method, path: url.pathname, ms, ...result }, "called a server");
  }

  async *#streamed(
    chunks: AsyncIterable<unknown>,
    { origin }: URL,
    signal: AbortSignal,
    release: () => void,
  ): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of chunks) if (chunk instanceof Uint8Array) yield chunk;
    } catch (thrown) {
      throw signal.aborted ? signal.reason : faultOf(thrown, origin);
    } finally {
      release();
    }
  }

  /** A signal that ends a call. `disarm` stops its timeout, `release` detaches the signal of the request. */
  #cancellable({ signal, timeoutMs }: HttpClientRequest, url: URL) {
    const abort = new AbortController();
    const cancel = () => abort.abort(new Fault("CANCELLED", "the call was cancelled"));
    const disarm = this.#armTimeout(timeoutMs, url, abort);
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    const release = () => signal?.removeEventListener("abort", cancel);
    return { signal: abort.signal, disarm, release };
  }

  /** Aborts the calls in progress and closes all connections. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#tls.close();
    await (await this.#connections)?.close();
  }

  #armTimeout(timeoutMs: number | undefined, url: URL, abort: AbortController): () => void {
    const { clock, settings } = this.#options;
    const limit = Math.min(settings.timeout || Infinity, timeoutMs ?? Infinity);
    if (limit === Infinity) return () => undefined;
    return clock.alarm(limit, () => {
      abort.abort(new Fault("DEADLINE_EXCEEDED", `${url.origin}: no reply within ${limit} ms`));
    });
  }

  async #follow(first: Hop, signal: AbortSignal): Promise<HttpClientResponse> {
    let hop = first;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await this.#send(hop, signal);
      const { location } = response.headers;
      if (!REDIRECTS.has(response.status) || location === undefined) return response;
      hop = redirected(hop, response.status, location);
    }
    throw new Fault("UNAVAILABLE", `${first.url.origin}: more than ${MAX_REDIRECTS} redirects`);
  }

  async #request({ method, url, headers, body }: Hop, signal: AbortSignal) {
    const connections = await this.#open();
    signal.throwIfAborted();
    try {
      const request = { method, headers, body, signal };
      return await connections.request(url, this.#proxyFor(url), request);
    } catch (thrown) {
      throw faultOf(thrown, url.origin);
    }
  }

  async #send(hop: Hop, signal: AbortSignal): Promise<HttpClientResponse> {
    const { url } = hop;
    try {
      const response = await this.#request(hop, signal);
      const { statusCode: status } = response;
      const received = joined(response.headers);
      const limit = this.#options.maxBodyBytes ?? MAX_BODY_BYTES;
      const content = await readBody(
        response.body,
        received["content-encoding"]?.toLowerCase(),
        limit,
      );
      if (REDIRECTS.has(status) && Array.isArray(response.headers["location"])) {
        throw new Fault("UNAVAILABLE", `${url.origin}: a redirect with more than one location`);
      }
      return { status, headers: received, body: content };
    } catch (thrown) {
      throw faultOf(thrown, url.origin);
    } finally {
      // undici releases a connection in the turn of the event loop after the last byte.
      await setImmediate();
      (await this.#connections)?.closeExcessIdle();
    }
  }

  #open(): Promise<Connections> {
    if (this.#closed) throw new Fault("CANCELLED", "the HTTP client was closed");
    this.#connections ??= import("undici").then(
      (undici) =>
        new Connections(undici, this.#options.settings, this.#tls, this.#options.unlimited),
    );
    return this.#connections;
  }
}

function firstHop(request: HttpClientRequest, disableCompression: boolean): Hop {
  const url = URL.parse(request.url);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new Fault("INVALID_ARGUMENT", "wanted an http:// or https:// URL");
  }
  const basic = basicCredentials(url);
  const headers = {
    "user-agent": "sluice",
    ...(disableCompression ? {} : { "accept-encoding": "gzip" }),
    ...(basic === undefined ? {} : { authorization: basic }),
    ...request.headers,
  };
  return { method: request.method, url, headers, body: request.body ?? null };
}

/** Method and body are kept, except that 303 makes it a GET. */
function redirected(from: Hop, status: number, location: string): Hop {
  const url = URL.parse(location, from.url);
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  if (url === null || !isHttp || (from.url.protocol === "https:" && url.protocol === "http:")) {
    throw new Fault("UNAVAILABLE", `${from.url.origin}: a redirect that is not followed`);
  }
  const kept = Object.entries(from.headers).filter(
    ([name]) => url.origin === from.url.origin || !CREDENTIAL_HEADERS.has(name),
  );
  if (status !== 303) return { ...from, url, headers: Object.fromEntries(kept) };
  const fetched = kept.filter(([name]) => name !== "content-type");
  return { method: "GET", url, headers: Object.fromEntries(fetched), body: null };
}

/** One text per header, under lower-case names. */
function joined(headers: Readonly<Record<string, string | string[] | undefined>>) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.toLowerCase(),
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
}
