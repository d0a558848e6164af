// Counts what the port does: HTTP requests and gRPC calls with their latency, in own arrays. Methods and
// routes come from the port's tables; what callers choose freely is bounded.

import { CODES, type Code } from "#base/fault.ts";
import type { Sink, Source } from "./metrics-table.ts";

interface ServerMetricsSettings {
  readonly grpc: { readonly latency_buckets_ms: readonly number[] };
  readonly http: { readonly latency_buckets_ms: readonly number[] };
}

/** A method as the port names it. */
interface CalledMethod {
  readonly path: string;
  readonly service: string;
  readonly method: string;
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
}

const HTTP_METHODS: ReadonlySet<string> = new Set([
  ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"],
]);
const OTHER = "_other";
/** What an access log shows when the caller left before a status was sent. */
const NOTHING_SENT = 499;

/** The port's kinds of HTTP/2 faults; a test compares them with the port's own list. */
export const FAULTS_OF_HTTP2 = [
  ...["protocol", "compression", "flow_control", "frame_size", "malformed_request", "stream"],
  ...["header_list", "continuation_flood", "too_many_streams", "too_many_bytes", "inflate"],
  ...["rapid_reset", "made_reset", "control_flood"],
  ...["slow_headers", "slow_body", "slow_reader", "silent"],
] as const;

/** The port's reasons to refuse a connection; a test compares them with the port's own list. */
export const REASONS_OF_REFUSAL = [
  ...["too_many", "slow_first_bytes", "slow_tls_handshake", "slow_preface", "cleartext_on_tls"],
  ...["tls_on_cleartext", "broken_tls_handshake", "client_name", "broken_preface"],
] as const;

type ReasonOfRefusal = (typeof REASONS_OF_REFUSAL)[number];
type FaultOfHttp2 = (typeof FAULTS_OF_HTTP2)[number];

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
  readonly #calls = new Map<string, GrpcRow>();
  readonly #requests = new Map<string, Map<number, Map<string, HttpRow>>>();
  /** By place in the list of kinds. */
  readonly #faults = new Float64Array(FAULTS_OF_HTTP2.length);
  readonly #refused = new Float64Array(REASONS_OF_REFUSAL.length);

  constructor({ grpc, http }: ServerMetricsSettings) {
    this.#grpcBounds = ascending(grpc.latency_buckets_ms).map((ms) => ms / 1_000);
    this.#httpBounds = ascending(http.latency_buckets_ms);
  }

  grpcStarted(method: CalledMethod): void {
    this.#call(method).started++;
  }

  grpcHandled(method: CalledMethod, code: Code, ms: number): void {
    const row = this.#call(method);
    const { number } = CODES[code];
    row.codes[number] = (row.codes[number] ?? 0) + 1;
    row.seconds.observe(ms / 1_000);
  }

  grpcReceived(method: CalledMethod): void {
    this.#call(method).received++;
  }

  grpcSent(method: CalledMethod): void {
    this.#call(method).sent++;
  }

  http2Fault(fault: FaultOfHttp2): void {
    const at = FAULTS_OF_HTTP2.indexOf(fault);
    this.#faults[at] = (this.#faults[at] ?? 0) + 1;
  }

  connectionRefused(why: ReasonOfRefusal): void {
    const at = REASONS_OF_REFUSAL.indexOf(why);
    this.#refused[at] = (this.#refused[at] ?? 0) + 1;
  }

  /** `route` is the pattern that answered, "" when none did; status 0 means that nothing was sent. */
  httpRequest(method: string, status: number, route: string, ms: number): void {
    const known = HTTP_METHODS.has(method) ? method : OTHER;
    const row = this.#request(known, status || NOTHING_SENT, route || OTHER);
    row.count++;
    row.ms.observe(ms);
  }

  collect(to: Sink): void {
    for (const [at, fault] of FAULTS_OF_HTTP2.entries())
      to.number("http2_server_faults_total", [fault], this.#faults[at] ?? 0);
    for (const [at, reason] of REASONS_OF_REFUSAL.entries())
      to.number("server_refused_connections_total", [reason], this.#refused[at] ?? 0);
    for (const row of this.#calls.values()) tellCall(to, row);
    for (const statuses of this.#requests.values())
      for (const methods of statuses.values())
        for (const row of methods.values()) tellRequest(to, row);
  }

  #call(method: CalledMethod): GrpcRow {
    const known = this.#calls.get(method.path);
    if (known !== undefined) return known;
    const row: GrpcRow = {
      labels: [method.type, method.service, method.method],
      ...{ started: 0, received: 0, sent: 0 },
      codes: new Float64Array(CODE_NAMES.length),
      seconds: new Histogram(this.#grpcBounds),
    };
    this.#calls.set(method.path, row);
    return row;
  }

  #request(method: string, status: number, route: string): HttpRow {
    const known = this.#requests.get(route)?.get(status)?.get(method);
    if (known !== undefined) return known;
    const ms = new Histogram(this.#httpBounds);
    const row: HttpRow = { labels: [method, status, route], count: 0, ms };
    within(within(this.#requests, route), status).set(method, row);
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
