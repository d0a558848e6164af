// Sends instant queries to one Prometheus server, each restricted to the configured labels.

import { Fault } from "#base/fault.ts";
import type { HttpClientRequest, HttpClientResponse } from "#client/http.ts";
import { enforceLabels } from "#promql/enforce-labels.ts";
import type { QueryEngine, Result } from "#promql/result.ts";
import { serverUrl } from "./address.ts";
import { readResponse } from "./response.ts";

/** PrometheusConfig. */
export interface PrometheusSettings {
  /** A URL, host:port or a name. */
  readonly address: string;
  readonly labels: readonly { readonly name: string; readonly value: string }[];
}

export interface PrometheusOptions {
  readonly settings: PrometheusSettings;
  /** Makes calls by `prometheus.http_client`. */
  readonly http: { call(call: HttpClientRequest): Promise<HttpClientResponse> };
  /** Called with warnings and infos of the server about a query, once for each query and text. */
  readonly onWarning?: (query: string, warning: string) => void;
}

/** Timeout of one attempt. */
const ATTEMPT_MS = 5_000;
/** Size of each cache; far more than any real set of policies needs. */
const MAX_CACHED = 2_000;

export class PrometheusClient implements QueryEngine {
  readonly #options: PrometheusOptions;
  readonly #url: string;
  readonly #restricted = new Map<string, string | Fault>();
  readonly #warned = new Map<string, true>();
  /** Becomes GET once a proxy has refused POST. */
  #method: "GET" | "POST" = "POST";

  constructor(options: PrometheusOptions) {
    this.#options = options;
    this.#url = serverUrl(options.settings.address, "/api/v1/query");
  }

  async query(text: string, at: number, signal: AbortSignal): Promise<Result> {
    const query = this.#restrict(text);
    if (query instanceof Fault) throw query;
    const form = new URLSearchParams({ query, time: seconds(at) }).toString();
    let reply = await this.#send(this.#method, form, signal);
    if (this.#method === "POST" && (reply.status === 405 || reply.status === 501)) {
      reply = await this.#send("GET", form, signal);
      if (reply.status < 300) this.#method = "GET";
    }
    const { result, warnings } = readResponse(reply.status, reply.body);
    for (const warning of warnings) this.#warn(text, warning);
    return result;
  }

  #send(method: "GET" | "POST", form: string, signal: AbortSignal): Promise<HttpClientResponse> {
    const call = { method, signal, timeoutMs: ATTEMPT_MS };
    if (method === "GET") {
      return this.#options.http.call({ ...call, url: `${this.#url}?${form}` });
    }
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return this.#options.http.call({ ...call, url: this.#url, headers, body: form });
  }

  /** The query to send, or why it is invalid. Cached per text, because the result is always the same. */
  #restrict(text: string): string | Fault {
    const { labels } = this.#options.settings;
    if (labels.length === 0) return text;
    const known = this.#restricted.get(text);
    if (known !== undefined) return known;
    const restricted = attempt(() => enforceLabels(text, labels));
    cache(this.#restricted, text, restricted);
    return restricted;
  }

  #warn(query: string, warning: string): void {
    const key = `${warning}\n${query}`;
    if (this.#warned.has(key)) return;
    cache(this.#warned, key, true);
    this.#options.onWarning?.(query, warning);
  }
}

function attempt(make: () => string): string | Fault {
  try {
    return make();
  } catch (thrown) {
    return Fault.from(thrown);
  }
}

function cache<T>(map: Map<string, T>, key: string, value: T): void {
  const [oldest] = map.size < MAX_CACHED ? [] : map.keys();
  if (oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

/** Unix seconds with up to three decimals. */
function seconds(at: number): string {
  return String(Math.round(at) / 1_000);
}
