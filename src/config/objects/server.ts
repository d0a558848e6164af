// Keys of the main port: listener, gRPC, HTTP, JSON gateway, TLS, drain.

import { fqdn, hostname, hostPort, listenAddress, optionalListenAddress } from "../table/format.ts";
import {
  bool,
  choice,
  count,
  duration,
  floats,
  object,
  ownTable,
  string,
  strings,
  table,
  text,
} from "../table/row.ts";
import { type KeyRule, needed } from "../table/rule.ts";
import { PAIR_OF_FILES } from "./client.ts";

const latencyBuckets = floats(
  [10, 25, 100, 250, 1_000],
  { min: 0, max: Number.MAX_VALUE },
  "Upper bounds of the latency histogram, in milliseconds.",
);

const listenerConfig = table("ListenerConfig", "Where the process listens.", {
  addr: string(
    ":8080",
    listenAddress,
    "Address of the main port. If it is not set, `sluice standalone` listens on 127.0.0.1:8080, which only this machine can reach.",
  ),
  keep_alive: duration(
    "180s",
    "Interval of TCP keep-alive probes. 0 means the default of the system, negative turns them off.",
    { least: "any" },
  ),
  network: choice(
    "tcp",
    ["tcp", "tcp4", "tcp6", ""],
    "IP versions to listen on. tcp and empty mean both.",
  ),
});

const grpcServerConfig = table("GRPCServerConfig", "The gRPC server.", {
  connection_timeout: duration(
    "120s",
    "Time limit for the handshake of a new connection, once for TLS and once for HTTP/2. 0 means no limit, except for TLS, where it means 120 s.",
  ),
  enable_reflection: bool(false, "Serve gRPC server reflection (v1 and v1alpha)."),
  latency_buckets_ms: latencyBuckets,
  max_connection_age: duration(
    "0s",
    "Age, varied by up to 10 %, at which the server asks a connection to close (GOAWAY). 0 means never.",
    { own: true },
  ),
  max_connection_age_grace: duration(
    "10s",
    "Time for calls in progress on a connection that was asked to close.",
    { own: true },
  ),
  max_message_bytes: count(
    4_194_304,
    "Maximum size of a gRPC message that is received, in bytes, inflated if it is compressed. Longer ones are refused with RESOURCE_EXHAUSTED.",
    { own: true, min: 1, max: 7_340_032 },
  ),
  transport: choice(
    "auto",
    ["auto", "own", "grpc-js"],
    "Implementation of HTTP/2 for all connections. auto and own are the same: Sluice's transport, which carries gRPC and JSON. grpc-js is the gRPC library, which carries gRPC only.",
    { own: true },
  ),
});

/** An operator who names TLS files while TLS is off would believe that it is on. */
const filesAreUsed = (...files: readonly string[]): readonly KeyRule[] =>
  files.map((file) => ({
    key: "enabled",
    when: [
      [file, "is not", ""],
      ["enabled", "is", "false"],
    ],
    wanted: "true",
    because: file,
    got: () => "false",
  }));

const gatewayTlsConfig = ownTable(
  "GRPCGatewayTLSConfig",
  "TLS of the connection to `grpc_server_address`. The files are read again when they change.",
  {
    ca_file: text(
      "File with the certificate authorities for the server's certificate; empty means those of the platform.",
    ),
    cert_file: text("File with the client certificate."),
    enabled: bool(false, "Use TLS. Implied by `server.tls.enabled`."),
    key_file: text("File with the private key of the client certificate."),
  },
  [...PAIR_OF_FILES, ...filesAreUsed("ca_file", "cert_file", "key_file")],
);

const grpcGatewayConfig = table("GRPCGatewayConfig", "The JSON API for checks.", {
  grpc_server_address: string(
    "",
    hostPort,
    "gRPC server to which the JSON routes of flow control are forwarded. Empty means that this process answers them itself.",
  ),
  tls: object(gatewayTlsConfig),
});

const httpServerConfig = table("HTTPServerConfig", "The HTTP server.", {
  disable_http_keep_alives: bool(false, "Close each connection after one reply."),
  idle_timeout: duration(
    "30s",
    "Time after which a connection without requests is closed; HTTP/2 connections get GOAWAY first. 0 means no limit.",
  ),
  latency_buckets_ms: latencyBuckets,
  max_baggage_bytes: count(
    8_192,
    "Maximum size of the `baggage` header of a checked request in bytes. A longer one is dropped whole, and the request is judged without it.",
    { own: true, max: 1_048_576 },
  ),
  max_body_bytes: count(
    1_048_576,
    "Maximum size of the JSON body of a request in bytes, except those with policies and telemetry (4 MiB). Larger ones are refused with 413; where the body describes a request that is checked, that decision is a refusal with status 413.",
    { own: true, min: 1, max: 4_194_304 },
  ),
  max_header_bytes: count(
    1_048_576,
    "Maximum size of the headers of a request in bytes. Larger ones are refused with 431. HTTP/2 allows at most 64 KiB, whatever the value. 0 means 1 MiB.",
  ),
  max_headers: count(
    1_000,
    "Maximum number of headers of a request. More are refused with 431, and over gRPC with RESOURCE_EXHAUSTED. A check that describes a request with more headers is decided: refused with status 431.",
    { own: true, min: 1, max: 10_000 },
  ),
  max_labels: count(
    1_000,
    "Maximum number of labels that the caller of a check claims for a flow. A flow with more is decided: refused with status 413.",
    { own: true, min: 1, max: 10_000 },
  ),
  max_json_depth: count(
    64,
    "Maximum nesting of objects and lists in the JSON body of a check or of a report that flows have ended. Deeper ones are refused with 400.",
    { own: true, min: 8, max: 256 },
  ),
  read_header_timeout: duration(
    "10s",
    "Time limit for receiving the headers of a request, and the first bytes of a connection. 0 means `read_timeout`.",
  ),
  read_timeout: duration(
    "10s",
    "Time limit for receiving a whole request, its headers included. 0 means no limit.",
  ),
  write_timeout: duration(
    "45s",
    "Time limit from the complete request to the end of the reply. Over HTTP/2, from when the peer stops reading its reply. 0 means no limit.",
  ),
});

const TLS_IS_WHOLE: readonly KeyRule[] = [
  ...["cert_file", "key_file"].map(
    (key): KeyRule => ({
      key,
      when: [
        ["enabled", "is", "true"],
        [key, "is", ""],
      ],
      wanted: "a file, because TLS is enabled",
    }),
  ),
  {
    ...needed(
      "client_ca_file",
      "allowed_cn",
      "a client_ca_file too: without it no client certificate is requested",
    ),
    key: "allowed_cn",
    got: () => "no client_ca_file",
  },
  ...filesAreUsed("cert_file", "key_file", "client_ca_file"),
];

const serverTlsConfig = table(
  "ServerTLSConfig",
  "TLS on the port.",
  {
    allowed_cn: string(
      "",
      fqdn,
      "Common name that client certificates must have. Requires client_ca_file.",
    ),
    cert_file: text("File with the server certificate and its chain."),
    client_ca_file: text(
      "File with the authorities that issue client certificates. When set, clients must present a certificate.",
    ),
    enabled: bool(false, "Use TLS on the port."),
    key_file: text("File with the private key of the certificate."),
  },
  TLS_IS_WHOLE,
);

const drainConfig = ownTable("DrainConfig", "How the process stops.", {
  accept_for: duration(
    "2s",
    "Time after SIGTERM during which connections are still accepted while health reports NOT_SERVING.",
  ),
  grace: duration("10s", "Time for calls in progress after connections were asked to close."),
});

const ADMINISTRATION_IS_CONSISTENT: readonly KeyRule[] = [
  {
    key: "addr",
    when: [
      ["enabled", "is", "false"],
      ["addr", "is not", ""],
    ],
    wanted: "an empty address, because administration is disabled (enabled: false)",
    got: ({ addr }) => JSON.stringify(addr),
  },
  {
    key: "token_path",
    when: [
      ["token", "is not", ""],
      ["token_path", "is not", ""],
    ],
    wanted: "either token or token_path",
    got: () => "both",
  },
];

const administrationConfig = ownTable(
  "AdministrationConfig",
  "Administration is everything that shows or changes what the process does: policies, dynamic configuration, decisions, status, profiles, server reflection. Checks and telemetry (the data plane), probes and /metrics are not part of it.",
  {
    addr: string(
      "",
      optionalListenAddress,
      "Separate address for administration; the main port then does not serve it. Empty: the main port serves it. A Unix socket is served without TLS.",
    ),
    allowed_hosts: strings(
      hostname,
      "Host names that HTTP requests for administration may use besides IP addresses and loopback names. Not checked where a token or a client certificate is required.",
    ),
    enabled: bool(true, "Serve administration."),
    insecure: bool(
      false,
      "Serve administration without a credential even where other machines can reach it. Has no effect where a token or a client certificate is required.",
    ),
    token: text(
      "Token that every caller of administration must send as `authorization: Bearer TOKEN`; at least 16 visible ASCII characters. Without a token, client certificates (`server.tls.client_ca_file`) are accepted; without either, only loopback addresses and Unix sockets serve administration.",
      { secret: true },
    ),
    token_path: text("File with the token. It is read again when it changes."),
  },
  ADMINISTRATION_IS_CONSISTENT,
);

export const serverConfig = table("", "", {
  administration: object(administrationConfig),
  drain: object(drainConfig),
  grpc: object(grpcServerConfig),
  grpc_gateway: object(grpcGatewayConfig),
  http: object(httpServerConfig),
  listener: object(listenerConfig),
  tls: object(serverTlsConfig),
});
