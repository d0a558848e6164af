// What the port is told: settings under their documented key names (durations in ms), and the voices that it
// speaks through. Declared here so that the room knows neither configuration nor telemetry.

import type { Code } from "#base/fault.ts";

export interface ListenerSettings {
  /** `host:port`, `[v6%zone]:port`, `:port` (every interface) or `unix:/path`. Port 0 picks a free one. */
  readonly addr: string;
  /** `tcp` (both families), `tcp4` or `tcp6`. */
  readonly network: string;
  /** Idle time before TCP probes; 0 = the system is asked for its default, negative = none. */
  readonly keep_alive: number;
}

export interface GrpcSettings {
  /** What carries gRPC: the own transport, the library, or (`auto`) own for peers on this machine. */
  readonly transport: "auto" | "own" | "grpc-js";
  /** From accept to the end of the TLS and HTTP/2 handshakes; 0 = no limit. */
  readonly connection_timeout: number;
  readonly enable_reflection: boolean;
  /** For the meter that counts for this port; the port itself keeps no histogram. */
  readonly latency_buckets_ms: readonly number[];
  /** After this time, ±10 %, a connection is asked to leave; 0 = never. */
  readonly max_connection_age: number;
  /** What its calls then get to end; 0 = as long as they need. */
  readonly max_connection_age_grace: number;
}

export interface HttpSettings {
  readonly disable_http_keep_alives: boolean;
  /** Between two requests of a connection; 0 = no limit. */
  readonly idle_timeout: number;
  /** For the meter that counts for this port; the port itself keeps no histogram. */
  readonly latency_buckets_ms: readonly number[];
  /** Request line and headers together; 0 = 1 MiB. */
  readonly max_header_bytes: number;
  /** 0 = as long as `read_timeout`. */
  readonly read_header_timeout: number;
  /** Headers and body together; 0 = no limit. */
  readonly read_timeout: number;
  /** From the whole request to the last byte of the reply; 0 = no limit. */
  readonly write_timeout: number;
}

export interface TlsSettings {
  readonly enabled: boolean;
  readonly cert_file: string;
  readonly key_file: string;
  /** Clients must show a certificate of this authority. */
  readonly client_ca_file: string;
  /** Exact common name that a client's certificate must bear. */
  readonly allowed_cn: string;
}

export interface DrainSettings {
  /** How long calls are still taken while health already says NOT_SERVING. */
  readonly accept_for: number;
  /** What calls in hand then get to end. */
  readonly grace: number;
}

export interface PortSettings {
  readonly listener: ListenerSettings;
  readonly grpc: GrpcSettings;
  readonly http: HttpSettings;
  readonly tls: TlsSettings;
  readonly drain: DrainSettings;
}

type Fields = Readonly<Record<string, unknown>>;

export interface PortLog {
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

/** One method of a service as meters name it. The same object at every call, so it can key a table. */
export interface MeteredMethod {
  /** `/package.Service/Method` */
  readonly path: string;
  readonly service: string;
  readonly method: string;
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
}

/** What a peer of the own HTTP/2 transport did wrong, as `http2_server_faults_total` counts it. */
export const HTTP2_FAULTS = [
  /** A connection broken by frames that RFC 9113 forbids, or by a header block that does not decode. */
  ...["protocol", "compression", "flow_control", "frame_size"],
  /** One stream broken: a request that is malformed (§8.1.1), or a frame its stream may not get. */
  ...["malformed_request", "stream"],
  /** Beyond a bound: fields of a request, frames of one header block, calls at once, bytes kept. */
  ...["header_list", "continuation_flood", "too_many_streams", "too_many_bytes"],
  /** A compressed message that is too long or broken, or too many that grow enormously. */
  "inflate",
  /** Too often in too short a time: calls taken back, resets provoked from us, frames that carry nothing. */
  ...["rapid_reset", "made_reset", "control_flood"],
  /** Not in time: header blocks, bodies, taking replies, answering a ping. */
  ...["slow_headers", "slow_body", "slow_reader", "silent"],
] as const;

export type Http2Fault = (typeof HTTP2_FAULTS)[number];

/**
 * Why a connection was closed before anything could be asked on it, whatever would have carried it, as
 * `server_refused_connections_total` counts it.
 */
export const REFUSED_CONNECTIONS = [
  /** More are open than are taken at once. */
  "too_many",
  /** Not in time: bytes that tell what it speaks, the TLS handshake, the preface and first SETTINGS of HTTP/2. */
  ...["slow_first_bytes", "slow_tls_handshake", "slow_preface"],
  /** The one where the other is spoken. */
  ...["cleartext_on_tls", "tls_on_cleartext"],
  /** A handshake that failed or broke off; a client's certificate whose common name is not allowed. */
  ...["broken_tls_handshake", "client_name"],
  /** HTTP/2 that begins with something else than its preface and SETTINGS, or breaks off before they are whole. */
  "broken_preface",
] as const;

export type RefusedConnection = (typeof REFUSED_CONNECTIONS)[number];

/** Counts for the port. Times are ms with fractions: whole ones would put most calls at 0. */
export interface ServerMeter {
  grpcStarted(method: MeteredMethod): void;
  grpcHandled(method: MeteredMethod, code: Code, ms: number): void;
  grpcReceived(method: MeteredMethod): void;
  grpcSent(method: MeteredMethod): void;
  http2Fault(fault: Http2Fault): void;
  connectionRefused(why: RefusedConnection): void;
  /** `route` is the pattern of the table, "" when no route matched; status 0 = nothing was sent. */
  httpRequest(method: string, status: number, route: string, ms: number): void;
}
