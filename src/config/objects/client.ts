// Keys of outgoing connections: proxies, TLS, gRPC and HTTP clients.

import { address, anyText, noProxyItem, proxyAddress } from "../table/format.ts";
import {
  bool,
  count,
  duration,
  headers,
  number,
  object,
  string,
  strings,
  table,
  text,
} from "../table/row.ts";
import { type KeyRule, needed } from "../table/rule.ts";

const NO_TIMEOUT = "0 means no timeout.";

export const proxyConfig = table(
  "ProxyConfig",
  "Proxies for outgoing calls: those of HTTP clients with use_proxy, those to etcd, JSON calls that are forwarded, and crash reports. Calls between agents, to Redis and over Unix sockets use none. If any key is set, HTTP_PROXY, HTTPS_PROXY and NO_PROXY are all ignored.",
  {
    http: string(
      "",
      proxyAddress,
      "Proxy for plain HTTP calls, and for gRPC without TLS, which needs CONNECT.",
    ),
    https: string(
      "",
      proxyAddress,
      "Proxy for HTTPS calls and gRPC with TLS. One for gRPC is itself reached without TLS.",
    ),
    no_proxy: strings(noProxyItem, "Destinations that are called without a proxy."),
  },
);

/** A certificate without its key, or a key without its certificate, cannot be used. */
export const PAIR_OF_FILES: readonly KeyRule[] = [
  { ...needed("cert_file", "key_file", "a file"), because: "key_file" },
  { ...needed("key_file", "cert_file", "a file"), because: "cert_file" },
];

export const clientTlsConfig = table(
  "ClientTLSConfig",
  "TLS of a client connection.",
  {
    ca_file: text("File with the certificate authorities for server certificates."),
    cert_file: text("File with the client certificate."),
    insecure_skip_verify: bool(false, "Accept any server certificate. Not for production."),
    key_file: text("File with the private key of the client certificate."),
    key_log_file: text("File to which session keys are appended, for debugging."),
  },
  PAIR_OF_FILES,
);

const backoffConfig = table(
  "BackoffConfig",
  "Delays between connection attempts of a gRPC client.",
  {
    base_delay: duration("1s", "Delay after the first failure."),
    jitter: number("float64", 0.2, "Random share of the delay.", { min: 0 }),
    max_delay: duration("120s", "Maximum delay."),
    multiplier: number("float64", 1.6, "Factor by which the delay grows after each failure.", {
      min: 0,
    }),
  },
);

export const grpcClientConfig = table("GRPCClientConfig", "A gRPC client.", {
  insecure: bool(false, "Connect without TLS."),
  min_connection_timeout: duration("20s", "Minimum time limit of a connection attempt."),
  use_proxy: bool(false, "Connect through the HTTP CONNECT proxy."),
  backoff: object(backoffConfig),
  tls: object(clientTlsConfig),
});

export const httpClientConfig = table("HTTPClientConfig", "An HTTP client.", {
  disable_compression: bool(false, "Do not request compressed replies."),
  disable_keep_alives: bool(false, "Use each connection for one request only."),
  expect_continue_timeout: duration("1s", `Time to wait for a 100 Continue reply. ${NO_TIMEOUT}`),
  idle_connection_timeout: duration(
    "90s",
    `Time after which an idle connection is closed. ${NO_TIMEOUT}`,
  ),
  key_log_file: text("File to which TLS session keys are appended, for debugging."),
  max_conns_per_host: count(0, "Maximum number of connections per host. 0 means no limit."),
  max_idle_connections: count(100, "Maximum number of idle connections. 0 means no limit."),
  max_idle_connections_per_host: count(
    5,
    "Maximum number of idle connections per host. 0 means no limit.",
  ),
  max_response_header_bytes: count(
    0,
    "Maximum size of the headers of a reply in bytes. 0 means no limit.",
  ),
  network_keep_alive: duration(
    "30s",
    "Interval of TCP keep-alive probes. Negative turns them off.",
    {
      least: "any",
    },
  ),
  network_timeout: duration("30s", `Time limit for connecting. ${NO_TIMEOUT}`),
  read_buffer_size: count(0, "Size of the read buffer in bytes. 0 means 4 KiB."),
  response_header_timeout: duration("0s", `Time limit for the headers of a reply. ${NO_TIMEOUT}`),
  tls_handshake_timeout: duration("10s", `Time limit for the TLS handshake. ${NO_TIMEOUT}`),
  timeout: duration(
    "60s",
    `Time limit for a whole call: connecting, redirects and reading the reply. ${NO_TIMEOUT}`,
  ),
  use_proxy: bool(false, "Send calls through the configured proxy."),
  write_buffer_size: count(0, "Size of the write buffer in bytes. 0 means 4 KiB."),
  proxy_connect_header: headers("Headers of the CONNECT request to a proxy.", { secret: true }),
  tls: object(clientTlsConfig),
});

export const clientConfig = table("ClientConfig", "A client over gRPC or HTTP.", {
  grpc: object(grpcClientConfig),
  http: object(httpClientConfig),
});

export const tokenSourceConfig = table(
  "TokenSourceConfig",
  "Google OAuth tokens for calls to the metrics server.",
  {
    enabled: bool(false, "Send a token with every call."),
    scopes: strings(anyText, "Scopes of the tokens."),
  },
);

export const alertmanagerConfig = table(
  "AlertmanagerConfig",
  "An Alertmanager to which alerts are sent.",
  {
    name: text("Name used in messages."),
    address: string("", address, "Address of the Alertmanager."),
    base_path: string("/", anyText, "Path of its API; `/` means `/api/v2`."),
    http_client: object(httpClientConfig),
  },
);
