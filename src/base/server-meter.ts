// The events that a server counts, and the names under which HTTP/2 faults and refused connections are counted. The
// port reports them and the metrics page shows them; neither knows the other.

import type { Code } from "./fault.ts";

/** One method of a service, as metrics name it. The same object at every call, so it can be the key of a map. */
export interface MeteredMethod {
  /** `/package.Service/Method` */
  readonly path: string;
  readonly service: string;
  readonly method: string;
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
}

/** Faults of peers of Sluice's HTTP/2 transport: label values of `http2_server_faults_total`. */
export const HTTP2_FAULTS = [
  // The connection is broken: frames that RFC 9113 forbids, or a field block that does not decode.
  "protocol",
  "compression",
  "flow_control",
  "frame_size",
  // One stream is broken: a malformed request (§8.1.1), or a frame that its stream may not receive.
  "malformed_request",
  "stream",
  // Above a limit: fields of a request, frames of one field block, concurrent calls, buffered bytes.
  "header_list",
  "continuation_flood",
  "too_many_streams",
  "too_many_bytes",
  // A compressed message that is too long or broken, or too many that expand enormously.
  "inflate",
  // Too often in too short a time: cancelled calls, resets that the peer provoked from us, frames without content.
  "rapid_reset",
  "made_reset",
  "control_flood",
  // Too late: field blocks, bodies, reading replies, answering a ping.
  "slow_headers",
  "slow_body",
  "slow_reader",
  "silent",
] as const;

export type Http2Fault = (typeof HTTP2_FAULTS)[number];

/**
 * Reasons for closing a connection before it could carry a request, whichever transport it was meant for: label values
 * of `server_refused_connections_total`.
 */
export const REFUSED_CONNECTIONS = [
  // For these two, the new connection was closed, or an idle one of the same address that made room for it.
  // As many connections are open as the limit allows, or the last ones are kept for addresses that hold few.
  "too_many",
  // The address of its peer, or its IPv6 network of 64 bits, holds its share of them.
  "too_many_of_address",
  // Too late: the bytes that show the protocol, the TLS handshake, the HTTP/2 preface with its first SETTINGS.
  "slow_first_bytes",
  "slow_tls_handshake",
  "slow_preface",
  // Cleartext where TLS is required, TLS where it is off.
  "cleartext_on_tls",
  "tls_on_cleartext",
  // The handshake failed or broke off; the common name of a client's certificate is not allowed.
  "broken_tls_handshake",
  "client_name",
  // HTTP/2 that does not begin with its preface and SETTINGS, or that breaks off before they are complete.
  "broken_preface",
] as const;

export type RefusedConnection = (typeof REFUSED_CONNECTIONS)[number];

/** How long a certificate is valid, in seconds. */
export interface CertificateSeconds {
  /** From now on; negative when it has expired. */
  readonly left: number;
  /** From the beginning of its validity. */
  readonly lifetime: number;
}

/** Times are milliseconds with fractions: whole ones would put most calls at 0. */
export interface ServerMeter {
  grpcStarted(method: MeteredMethod): void;
  grpcHandled(method: MeteredMethod, code: Code, ms: number): void;
  grpcReceived(method: MeteredMethod): void;
  grpcSent(method: MeteredMethod): void;
  http2Fault(fault: Http2Fault): void;
  connectionRefused(why: RefusedConnection): void;
  /** Names a certificate file in use. */
  certificate(file: string, seconds: () => CertificateSeconds): void;
  /** `route` is the pattern of the route, "" when none matched; status 0 means that no reply was sent. */
  httpRequest(method: string, status: number, route: string, ms: number): void;
}
