// Asks one Prometheus server instant queries, each narrowed to the configured labels.

import { Fault } from "#base/fault.ts";
import { enforceLabels } from "#promql/enforce.ts";
import type { Measure, Result } from "#promql/result.ts";
import type { HttpCall, HttpReply } from "#wire/http-caller.ts";
import { readReply } from "./reply.ts";

/** PrometheusConfig. */
export interface PrometheusSettings {
  /** A URL, host:port or a name. */
  readonly address: string;
  readonly labels: readonly { readonly name: string; readonly value: string }[];
}

export interface PrometheusOptions {
  readonly settings: PrometheusSettings;
  /** Makes calls by `prometheus.http_client`. */
  readonly http: { call(call: HttpCall): Promise<HttpReply> };
  /** Hears what the server remarks on queries that it answered: once for each query and remark. */
  readonly remarked?: (query: string, remark: string) => void;
}

/** Time of one attempt (§4.2): no circuit waits longer for a number. */
const ATTEMPT_MS = 5_000;
/** Queries and remarks that are remembered; those of any real set of policies fit. */
const REMEMBERED = 2_000;

export class PrometheusClient implements Measure {
  readonly #options: PrometheusOptions;
  readonly #url: string;
  readonly #narrowed = new Map<string, string | Fault>();
  readonly #remarked = new Map<string, true>();
  /** Some proxies in front of a server let only GET through. */
  #method: "GET" | "POST" = "POST";

  constructor(options: PrometheusOptions) {
    this.#options = options;
    this.#url = queryUrl(options.settings.address);
  }

  async query(text: string, at: number, signal: AbortSignal): Promise<Result> {
    const query = this.#narrow(text);
    if (query instanceof Fault) throw query;
    const form = new URLSearchParams({ query, time: seconds(at) }).toString();
    let reply = await this.#send(this.#method, form, signal);
    if (this.#method === "POST" && (reply.status === 405 || reply.status === 501)) {
      reply = await this.#send("GET", form, signal);
      if (reply.status < 300) this.#method = "GET";
    }
    const { result, warnings } = readReply(reply.status, reply.body);
    for (const remark of warnings) this.#remark(text, remark);
    return result;
  }

  #send(method: "GET" | "POST", form: string, signal: AbortSignal): Promise<HttpReply> {
    const call = { method, signal, timeoutMs: ATTEMPT_MS };
    if (method === "GET") {
      return this.#options.http.call({ ...call, url: `${this.#url}?${form}` });
    }
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return this.#options.http.call({ ...call, url: this.#url, headers, body: form });
  }

  /** The text that is sent, or why it cannot be: judged once per text, since no later attempt can help. */
  #narrow(text: string): string | Fault {
    const { labels } = this.#options.settings;
    if (labels.length === 0) return text;
    const known = this.#narrowed.get(text);
    if (known !== undefined) return known;
    const narrowed = attempt(() => enforceLabels(text, labels));
    remember(this.#narrowed, text, narrowed);
    return narrowed;
  }

  #remark(query: string, remark: string): void {
    const key = `${remark}\n${query}`;
    if (this.#remarked.has(key)) return;
    remember(this.#remarked, key, true);
    this.#options.remarked?.(query, remark);
  }
}

function attempt(make: () => string): string | Fault {
  try {
    return make();
  } catch (thrown) {
    return Fault.from(thrown);
  }
}

function remember<T>(map: Map<string, T>, key: string, value: T): void {
  const [oldest] = map.size < REMEMBERED ? [] : map.keys();
  if (oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

function queryUrl(address: string): string {
  const url = URL.parse(address.includes("://") ? address : `http://${address}`);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    const wanted = "wanted host:port, a name or an http:// or https:// URL";
    throw new Fault("INVALID_ARGUMENT", `prometheus.address: ${wanted}`);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/api/v1/query`;
  url.search = "";
  url.hash = "";
  return url.href;
}

/** Unix seconds with as many decimals as the milliseconds need. */
function seconds(at: number): string {
  return String(Math.round(at) / 1_000);
}
