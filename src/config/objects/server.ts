// Keys of the one port: listener, gRPC, HTTP, JSON gateway, TLS, drain.

import { anyText, fqdn, hostPort, listenAddress } from "../format.ts";
import {
  bool,
  type Complaint,
  choice,
  duration,
  floats,
  number,
  object,
  string,
  table,
} from "../row.ts";

const LATENCY_MS: readonly number[] = [10, 25, 100, 250, 1_000];

export const listenerConfig = table("ListenerConfig", "Where the process listens.", {
  addr: string(":8080", listenAddress, "Address of the one port that carries everything."),
  keep_alive: duration(
    "180s",
    "Period of TCP keep-alive probes. 0 takes the system's own, negative turns them off.",
    { least: "any" },
  ),
  network: choice(
    "tcp",
    ["tcp", "tcp4", "tcp6", ""],
    "IP versions to listen on; empty is tcp, which is both.",
  ),
});

export const grpcServerConfig = table("GRPCServerConfig", "The gRPC server.", {
  connection_timeout: duration(
    "120s",
    "Time a new connection has for its handshake. 0 means no limit.",
  ),
  enable_reflection: bool(false, "Offer server reflection (v1 and v1alpha)."),
  latency_buckets_ms: floats(
    LATENCY_MS,
    { min: 0, max: Number.MAX_VALUE },
    "Upper bounds of the latency histogram, in milliseconds.",
  ),
  max_connection_age: duration(
    "0s",
    "Age at which a connection is asked to go away, give or take 10 %. 0 means never.",
    { own: true },
  ),
  max_connection_age_grace: duration(
    "10s",
    "Time for calls in hand on a connection that was asked to go away.",
    { own: true },
  ),
  transport: choice(
    "auto",
    ["auto", "own", "grpc-js"],
    "What carries HTTP/2: own is this server's transport, grpc-js the gRPC library, each for all connections. auto takes own for connections from loopback or over a Unix socket and grpc-js for every other.",
    { own: true },
  ),
});

export const grpcGatewayConfig = table("GRPCGatewayConfig", "The JSON door.", {
  grpc_server_address: string(
    "",
    hostPort,
    "gRPC server that JSON calls are forwarded to. Empty means this process, without a network hop.",
  ),
});

export const httpServerConfig = table("HTTPServerConfig", "The HTTP server.", {
  disable_http_keep_alives: bool(false, "Close every connection after one reply."),
  idle_timeout: duration(
    "30s",
    "Time a connection may wait for its next request. 0 means no limit.",
  ),
  latency_buckets_ms: floats(
    LATENCY_MS,
    { min: 0, max: Number.MAX_VALUE },
    "Upper bounds of the latency histogram, in milliseconds.",
  ),
  max_header_bytes: number(
    "int64",
    1_048_576,
    "Bytes of headers in a request; more is refused with 431.",
    { min: 0 },
  ),
  read_header_timeout: duration("10s", "Time to send the headers of a request. 0 means no limit."),
  read_timeout: duration("10s", "Time to send a whole request. 0 means no limit."),
  write_timeout: duration(
    "45s",
    "Time from the end of a request's headers to the end of its reply. 0 means no limit.",
  ),
});

function tlsIsWhole(tls: {
  readonly allowed_cn: string;
  readonly cert_file: string;
  readonly client_ca_file: string;
  readonly enabled: boolean;
  readonly key_file: string;
}): readonly Complaint[] {
  const complaints: Complaint[] = [];
  for (const key of ["cert_file", "key_file"] as const) {
    if (tls.enabled && tls[key] === "") {
      complaints.push({ key, wanted: "a file, because TLS is enabled", got: "nothing" });
    }
  }
  if (tls.allowed_cn !== "" && tls.client_ca_file === "") {
    const wanted = "a client_ca_file beside it: without one no client certificate is asked for";
    complaints.push({ key: "allowed_cn", wanted, got: "no client_ca_file" });
  }
  return complaints;
}

export const serverTlsConfig = table(
  "ServerTLSConfig",
  "TLS of the one port.",
  {
    allowed_cn: string(
      "",
      fqdn,
      "Common name that a client certificate must carry. Needs client_ca_file.",
    ),
    cert_file: string("", anyText, "File of the server certificate and its chain."),
    client_ca_file: string(
      "",
      anyText,
      "File of the authorities that client certificates are checked against; when set, clients must show one.",
    ),
    enabled: bool(false, "Speak TLS on the one port."),
    key_file: string("", anyText, "File of the certificate's private key."),
  },
  tlsIsWhole,
);

export const drainConfig = table("DrainConfig", "How the process stops.", {
  accept_for: duration(
    "2s",
    "After SIGTERM: time that connections are still accepted while health says NOT_SERVING.",
    { own: true },
  ),
  grace: duration("10s", "Time for work in hand after connections were asked to go away.", {
    own: true,
  }),
});

export const serverConfig = table("", "", {
  drain: object(drainConfig),
  grpc: object(grpcServerConfig),
  grpc_gateway: object(grpcGatewayConfig),
  http: object(httpServerConfig),
  listener: object(listenerConfig),
  tls: object(serverTlsConfig),
});
