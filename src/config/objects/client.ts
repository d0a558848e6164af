// Keys of everything that calls out: proxies, TLS, gRPC and HTTP clients.

import { address, anyText, noProxyItem, proxyAddress } from "../format.ts";
import {
  bool,
  type Complaint,
  duration,
  headers,
  number,
  object,
  string,
  strings,
  table,
} from "../row.ts";

const NO_TIMEOUT = "0 means no timeout.";

export const proxyConfig = table(
  "ProxyConfig",
  "Proxies for outgoing calls. Any that is set silences HTTP_PROXY, HTTPS_PROXY and NO_PROXY altogether.",
  {
    http: string("", proxyAddress, "Proxy for plain HTTP calls."),
    https: string("", proxyAddress, "Proxy for HTTPS calls."),
    no_proxy: strings(noProxyItem, "Destinations that are called directly."),
  },
);

/** A certificate without its key, or the reverse, cannot be used. */
function pairOfFiles(tls: {
  readonly cert_file: string;
  readonly key_file: string;
}): readonly Complaint[] {
  if ((tls.cert_file === "") === (tls.key_file === "")) return [];
  const [missing, present] =
    tls.cert_file === "" ? ["cert_file", "key_file"] : ["key_file", "cert_file"];
  return [{ key: missing, wanted: `a file, because ${present} is set`, got: "nothing" }];
}

export const clientTlsConfig = table(
  "ClientTLSConfig",
  "TLS of a client connection.",
  {
    ca_file: string(
      "",
      anyText,
      "File of the certificate authorities that servers are checked against.",
    ),
    cert_file: string("", anyText, "File of the client certificate."),
    insecure_skip_verify: bool(false, "Accept any server certificate. Not for production."),
    key_file: string("", anyText, "File of the client certificate's private key."),
    key_log_file: string("", anyText, "File that session keys are appended to, for debugging."),
  },
  pairOfFiles,
);

export const backoffConfig = table("BackoffConfig", "Waiting between attempts of a gRPC client.", {
  base_delay: duration("1s", "Wait after the first failure."),
  jitter: number("float64", 0.2, "Share of the wait that is random.", { min: 0 }),
  max_delay: duration("120s", "Longest wait."),
  multiplier: number("float64", 1.6, "Growth of the wait per failure.", { min: 0 }),
});

export const grpcClientConfig = table("GRPCClientConfig", "A gRPC client.", {
  insecure: bool(false, "Speak without TLS."),
  min_connection_timeout: duration("20s", "Least time that a connection attempt is given."),
  use_proxy: bool(false, "Connect through the HTTP CONNECT proxy."),
  backoff: object(backoffConfig),
  tls: object(clientTlsConfig),
});

export const httpClientConfig = table("HTTPClientConfig", "An HTTP client.", {
  disable_compression: bool(false, "Do not ask for compressed replies."),
  disable_keep_alives: bool(false, "Use each connection once."),
  expect_continue_timeout: duration("1s", `Wait for a server's 100-continue. ${NO_TIMEOUT}`),
  idle_connection_timeout: duration(
    "90s",
    `Age at which an idle connection is closed. ${NO_TIMEOUT}`,
  ),
  key_log_file: string("", anyText, "File that TLS session keys are appended to, for debugging."),
  max_conns_per_host: number("int64", 0, "Connections per host. 0 means no limit.", { min: 0 }),
  max_idle_connections: number("int64", 100, "Idle connections kept. 0 means no limit.", {
    min: 0,
  }),
  max_idle_connections_per_host: number(
    "int64",
    5,
    "Idle connections kept per host. 0 means no limit.",
    { min: 0 },
  ),
  max_response_header_bytes: number("int64", 0, "Bytes of headers in a reply. 0 means no limit.", {
    min: 0,
  }),
  network_keep_alive: duration("30s", "Period of TCP keep-alive probes; negative turns them off.", {
    least: "any",
  }),
  network_timeout: duration("30s", `Time to make a connection. ${NO_TIMEOUT}`),
  read_buffer_size: number("int64", 0, "Bytes of the read buffer. 0 means 4 KiB.", { min: 0 }),
  response_header_timeout: duration("0s", `Wait for the headers of a reply. ${NO_TIMEOUT}`),
  tls_handshake_timeout: duration("10s", `Time for the TLS handshake. ${NO_TIMEOUT}`),
  timeout: duration(
    "60s",
    `Time for a whole call: connecting, redirects, reading the reply. ${NO_TIMEOUT}`,
  ),
  use_proxy: bool(false, "Call through the configured proxy."),
  write_buffer_size: number("int64", 0, "Bytes of the write buffer. 0 means 4 KiB.", { min: 0 }),
  proxy_connect_header: headers("Headers sent to a proxy with CONNECT.", { secret: true }),
  tls: object(clientTlsConfig),
});

export const clientConfig = table("ClientConfig", "A client by gRPC or by HTTP.", {
  grpc: object(grpcClientConfig),
  http: object(httpClientConfig),
});

export const tokenSourceConfig = table(
  "TokenSourceConfig",
  "Google OAuth tokens for calls to the metrics server.",
  {
    enabled: bool(false, "Send a token with every call."),
    scopes: strings(anyText, "Scopes that tokens are asked for."),
  },
);

export const alertmanagerConfig = table(
  "AlertmanagerConfig",
  "One Alertmanager that alerts go to.",
  {
    name: string("", anyText, "Name used in messages."),
    address: string("", address, "Where it listens."),
    base_path: string("/", anyText, "Path that its API is found under; `/` means `/api/v2`."),
    http_client: object(httpClientConfig),
  },
);
