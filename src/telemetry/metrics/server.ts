// Counts what the port does: HTTP requests and gRPC calls with their latency. Methods and routes come from the
// port's tables, so their number is bounded; of HTTP methods only the standard ones get series of their own.

import { CODES, type Code } from "#base/fault.ts";
import {
  type CertificateSeconds,
  HTTP2_FAULTS,
  type Http2Fault,
  type MeteredMethod,
  REFUSED_CONNECTIONS,
  type RefusedConnection,
  type ServerMeter,
} from "#base/server-meter.ts";
import { SlowCalls } from "./slow-calls.ts";
import type { MetricSink, MetricSource } from "./table.ts";

interface ServerMetricsSettings {
  readonly grpc: { readonly latency_buckets_ms: readonly number[] };
  readonly http: { readonly latency_buckets_ms: readonly number[] };
}

const HTTP_METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "CONNECT",
]);
const OTHER = "_other";
/** The status that access logs conventionally show when the caller left before a status was sent. */
const CLIENT_CLOSED_REQUEST = 499;

/** Names of the gRPC codes in the spelling that dashboards for gRPC servers expect, by number. */
const CODE_NAMES = [
  "OK",
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
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

export class ServerMetrics implements MetricSource, ServerMeter {
  /** The last slow calls, once somebody records them. */
  readonly slow = new SlowCalls();
  readonly #grpcBounds: readonly number[];
  readonly #httpBounds: readonly number[];
  readonly #calls = new Map<string, GrpcRow>();
  readonly #certificates = new Map<string, () => CertificateSeconds>();
  readonly #requests = new Map<string, Map<number, Map<string, HttpRow>>>();
  /** By index in HTTP2_FAULTS. */
  readonly #faults = new Float64Array(HTTP2_FAULTS.length);
  /** By index in REFUSED_CONNECTIONS. */
  readonly #refused = new Float64Array(REFUSED_CONNECTIONS.length);

  constructor({ grpc, http }: ServerMetricsSettings) {
    this.#grpcBounds = ascending(grpc.latency_buckets_ms).map((ms) => ms / 1_000);
    this.#httpBounds = ascending(http.latency_buckets_ms);
  }

  grpcStarted(method: MeteredMethod): void {
    this.#call(method).started++;
  }

  grpcHandled(method: MeteredMethod, code: Code, ms: number): void {
    const row = this.#call(method);
    const { number } = CODES[code];
    row.codes[number] = (row.codes[number] ?? 0) + 1;
    row.seconds.observe(ms / 1_000);
    if (this.slow.isSlow(ms)) this.slow.add(ms, CODE_NAMES[number] ?? code, method.path);
  }

  grpcReceived(method: MeteredMethod): void {
    this.#call(method).received++;
  }

  grpcSent(method: MeteredMethod): void {
    this.#call(method).sent++;
  }

  http2Fault(fault: Http2Fault): void {
    const at = HTTP2_FAULTS.indexOf(fault);
    this.#faults[at] = (this.#faults[at] ?? 0) + 1;
  }

  certificate(file: string, seconds: () => CertificateSeconds): void {
    this.#certificates.set(file, seconds);
  }

  connectionRefused(why: RefusedConnection): void {
    const at = REFUSED_CONNECTIONS.indexOf(why);
    this.#refused[at] = (this.#refused[at] ?? 0) + 1;
  }

  httpRequest(method: string, status: number, route: string, ms: number): void {
    const known = HTTP_METHODS.has(method) ? method : OTHER;
    const row = this.#request(known, status || CLIENT_CLOSED_REQUEST, route || OTHER);
    row.count++;
    row.ms.observe(ms);
    if (this.slow.isSlow(ms)) this.slow.add(ms, status, `${known} ${route || OTHER}`);
  }

  collect(to: MetricSink): void {
    for (const [file, seconds] of this.#certificates) {
      const { left, lifetime } = seconds();
      to.number("certificate_expiry_seconds", [file], left);
      to.number("certificate_lifetime_seconds", [file], lifetime);
    }
    for (const [at, fault] of HTTP2_FAULTS.entries())
      to.number("http2_server_faults_total", [fault], this.#faults[at] ?? 0);
    for (const [at, reason] of REFUSED_CONNECTIONS.entries())
      to.number("server_refused_connections_total", [reason], this.#refused[at] ?? 0);
    for (const row of this.#calls.values()) collectCall(to, row);
    for (const statuses of this.#requests.values())
      for (const methods of statuses.values())
        for (const row of methods.values()) collectRequest(to, row);
  }

  #call(method: MeteredMethod): GrpcRow {
    const known = this.#calls.get(method.path);
    if (known !== undefined) return known;
    const row: GrpcRow = {
      labels: [method.type, method.service, method.method],
      started: 0,
      received: 0,
      sent: 0,
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

function collectCall(to: MetricSink, row: GrpcRow): void {
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

function collectRequest(to: MetricSink, { labels, count, ms }: HttpRow): void {
  to.number("http_requests_total", labels, count);
  if (labels[1] >= 400) to.number("http_errors_total", labels, count);
  to.buckets("http_requests_latency_ms", labels, ms);
}
