// Counts what the port does: HTTP requests and gRPC calls with their latency, in own arrays. Labels that
// callers choose are bounded.

import { CODES, type Code } from "#base/fault.ts";
import type { Sink, Source } from "./metrics-table.ts";

export interface ServerMetricsSettings {
  readonly grpc: { readonly latency_buckets_ms: readonly number[] };
  readonly http: { readonly latency_buckets_ms: readonly number[] };
}

/** As much of a gRPC service as tells the type of its calls. */
export interface DescribedService {
  readonly name: string;
  readonly methods: Readonly<
    Record<
      string,
      | { readonly kind: "unary" }
      | { readonly kind: "stream"; readonly client: boolean; readonly server: boolean }
    >
  >;
}

const HTTP_METHODS = new Set([
  ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"],
]);
const OTHER = "_other";
/** Far beyond what the routes and services of one process can make. */
const MOST_ROWS = 4_000;

/** Names of the codes as dashboards for gRPC servers know them, by number. */
const CODE_NAMES = [
  ...["OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound"],
  ...["AlreadyExists", "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted"],
  ...["OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated"],
] as const;

class Histogram {
  readonly bounds: readonly number[];
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.bounds.length && value > (this.bounds[at] ?? 0)) at++;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
  }
}

interface GrpcRow {
  readonly labels: readonly [type: string, service: string, method: string];
  started: number;
  received: number;
  sent: number;
  readonly codes: Float64Array;
  readonly seconds: Histogram;
}

interface HttpRow {
  readonly labels: readonly [method: string, status: number, route: string];
  count: number;
  readonly ms: Histogram;
}

export class ServerMetrics implements Source {
  readonly #grpcBounds: readonly number[];
  readonly #httpBounds: readonly number[];
  readonly #types = new Map<string, string>();
  readonly #grpc = new Map<string, Map<string, GrpcRow>>();
  readonly #http = new Map<string, Map<number, Map<string, HttpRow>>>();
  #rows = 0;

  constructor({ grpc, http }: ServerMetricsSettings) {
    this.#grpcBounds = ascending(grpc.latency_buckets_ms).map((ms) => ms / 1_000);
    this.#httpBounds = ascending(http.latency_buckets_ms);
  }

  /** Tells which methods stream. Those of services that were never described count as unary. */
  describe(services: Iterable<DescribedService>): void {
    for (const { name, methods } of services)
      for (const [method, shape] of Object.entries(methods))
        this.#types.set(`${name}/${method}`, typeOf(shape));
  }

  grpcStarted(service: string, method: string): void {
    this.#call(service, method).started++;
  }

  grpcHandled(service: string, method: string, code: Code | number, ms: number): void {
    const row = this.#call(service, method);
    const number = typeof code === "number" ? code : CODES[code].number;
    const known = number in CODE_NAMES ? number : CODES.UNKNOWN.number;
    row.codes[known] = (row.codes[known] ?? 0) + 1;
    row.seconds.observe(ms / 1_000);
  }

  received(service: string, method: string): void {
    this.#call(service, method).received++;
  }

  sent(service: string, method: string): void {
    this.#call(service, method).sent++;
  }

  /** `route` is the pattern that answered; "" when none did. */
  http(method: string, status: number, route: string, ms: number): void {
    const row = this.#request(HTTP_METHODS.has(method) ? method : OTHER, status, route || OTHER);
    row.count++;
    row.ms.observe(ms);
  }

  collect(to: Sink): void {
    for (const methods of this.#grpc.values())
      for (const row of methods.values()) tellCall(to, row);
    for (const statuses of this.#http.values())
      for (const methods of statuses.values())
        for (const row of methods.values()) tellRequest(to, row);
  }

  #call(service: string, method: string): GrpcRow {
    return this.#grpc.get(service)?.get(method) ?? this.#newCall(service, method);
  }

  #newCall(service: string, method: string): GrpcRow {
    if (this.#rows >= MOST_ROWS && service !== OTHER) return this.#call(OTHER, OTHER);
    this.#rows++;
    const type = this.#types.get(`${service}/${method}`) ?? "unary";
    const row: GrpcRow = {
      labels: [type, service, method],
      started: 0,
      received: 0,
      sent: 0,
      codes: new Float64Array(CODE_NAMES.length),
      seconds: new Histogram(this.#grpcBounds),
    };
    within(this.#grpc, service).set(method, row);
    return row;
  }

  #request(method: string, status: number, route: string): HttpRow {
    return (
      this.#http.get(route)?.get(status)?.get(method) ?? this.#newRequest(method, status, route)
    );
  }

  #newRequest(method: string, status: number, route: string): HttpRow {
    if (this.#rows >= MOST_ROWS && route !== OTHER) return this.#request(method, status, OTHER);
    this.#rows++;
    const ms = new Histogram(this.#httpBounds);
    const row: HttpRow = { labels: [method, status, route], count: 0, ms };
    within(within(this.#http, route), status).set(method, row);
    return row;
  }
}

function within<Key, Inner, Value>(map: Map<Key, Map<Inner, Value>>, key: Key): Map<Inner, Value> {
  const inner = map.get(key) ?? new Map<Inner, Value>();
  map.set(key, inner);
  return inner;
}

function ascending(bounds: readonly number[]): readonly number[] {
  return [...new Set(bounds)].filter(Number.isFinite).sort((a, b) => a - b);
}

function typeOf(shape: DescribedService["methods"][string]): string {
  if (shape.kind === "unary") return "unary";
  if (shape.client) return shape.server ? "bidi_stream" : "client_stream";
  return shape.server ? "server_stream" : "unary";
}

function tellCall(to: Sink, row: GrpcRow): void {
  const { labels, started, received, sent, codes, seconds } = row;
  if (started > 0) to.number("grpc_server_started_total", labels, started);
  if (received > 0) to.number("grpc_server_msg_received_total", labels, received);
  if (sent > 0) to.number("grpc_server_msg_sent_total", labels, sent);
  let handled = 0;
  for (const [number, count] of codes.entries()) {
    handled += count;
    const code = CODE_NAMES[number] ?? "Unknown";
    if (count > 0) to.number("grpc_server_handled_total", [...labels, code], count);
  }
  if (handled > 0) to.buckets("grpc_server_handling_seconds", labels, seconds);
}

function tellRequest(to: Sink, { labels, count, ms }: HttpRow): void {
  to.number("http_requests_total", labels, count);
  if (labels[1] >= 400) to.number("http_errors_total", labels, count);
  to.buckets("http_requests_latency_ms", labels, ms);
}
