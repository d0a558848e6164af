// Metrics of the ports: HTTP requests, gRPC calls, certificates, connections and faults.

import type { MetricTable } from "./row.ts";

const HTTP = ["http_method", "http_status_code", "handler_name"] as const;
const GRPC = ["grpc_type", "grpc_service", "grpc_method"] as const;

export const PORT_METRICS = {
  sluice_metrics_inconsistent_total: {
    type: "counter",
    labels: [],
    about: "Samples left out of a scrape because they contradict this table or each other.",
  },
  http_requests_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests. `handler_name` is the pattern of the route.",
  },
  http_errors_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests answered with status 400 or more.",
  },
  http_requests_latency_ms: {
    type: "histogram",
    labels: HTTP,
    about:
      "Milliseconds until an HTTP reply was written. Buckets: `server.http.latency_buckets_ms`.",
  },
  grpc_server_started_total: { type: "counter", labels: GRPC, about: "gRPC calls that began." },
  grpc_server_handled_total: {
    type: "counter",
    labels: [...GRPC, "grpc_code"],
    about: "gRPC calls that ended, by status code.",
  },
  grpc_server_msg_received_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages received by gRPC calls.",
  },
  grpc_server_msg_sent_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages sent by gRPC calls.",
  },
  grpc_server_handling_seconds: {
    type: "histogram",
    labels: GRPC,
    about:
      "Seconds until a gRPC call ended. Buckets: `server.grpc.latency_buckets_ms`, divided by 1000.",
  },
  certificate_expiry_seconds: {
    type: "gauge",
    labels: ["file"],
    about:
      "Seconds until the certificate that the port uses expires, or the first of its chain; negative afterwards.",
  },
  certificate_lifetime_seconds: {
    type: "gauge",
    labels: ["file"],
    about: "Seconds for which that certificate is valid in all.",
  },
  http2_server_faults_total: {
    type: "counter",
    labels: ["fault"],
    about:
      "Violations of HTTP/2 or of its limits by peers, where Sluice's own HTTP/2 transport serves (`server.grpc.transport`), by kind. Every kind is shown from 0.",
  },
  server_refused_connections_total: {
    type: "counter",
    labels: ["reason"],
    about:
      "Connections that were closed before their first request, over any transport. `too_many`: the limit of open connections was reached, or the last ones are kept for addresses that hold few; `too_many_of_address`: the address of the client, or its IPv6 network of 64 bits, holds its share of them (for both: the new connection, or an idle one of the same address that made room for it); `slow_first_bytes`, `slow_tls_handshake`, `slow_preface`: the client was too slow; `cleartext_on_tls`, `tls_on_cleartext`: the client used one where the other is expected; `broken_tls_handshake`, `broken_preface` (the start of HTTP/2): failed or aborted; `client_name`: the common name of the client's certificate is not allowed. Connections that clients close without sending anything are not counted. Every reason is shown from 0.",
  },
} as const satisfies MetricTable;
