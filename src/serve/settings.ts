// Settings of the port under their documented key names; durations are in milliseconds. Declared here so that this room
// does not depend on the configuration.

export interface ListenerSettings {
  /** `host:port`, `[v6%zone]:port`, `:port` (every interface) or `unix:/path`. Port 0 picks a free one. */
  readonly addr: string;
  /** The configuration key of `addr`, which messages name; absent for `server.listener.addr`. */
  readonly key?: string;
  /** `tcp` (both families), `tcp4` or `tcp6`. */
  readonly network: string;
  /** Idle time before TCP keep-alive probes; 0 = the system's default, negative = no probes. */
  readonly keep_alive: number;
}

/** The configuration key of a listener's address. */
export function keyOf({ key = "server.listener.addr" }: Pick<ListenerSettings, "key">): string {
  return key;
}

export interface GrpcSettings {
  /** The transport of HTTP/2: Sluice's (`own`, and `auto` means the same) or the gRPC library. */
  readonly transport: "auto" | "own" | "grpc-js";
  /** Time from accept to the end of the TLS handshake, and of the HTTP/2 handshake; 0 = no limit. */
  readonly connection_timeout: number;
  readonly enable_reflection: boolean;
  /** For the meter that counts for this port; the port itself has no histogram. */
  readonly latency_buckets_ms: readonly number[];
  /** Longest message that is received, in bytes; for compressed messages the inflated size counts. */
  readonly max_message_bytes: number;
  /** Age, spread by ±10 %, at which a connection is asked to close; 0 = never. */
  readonly max_connection_age: number;
  /** Time that the calls of such a connection then have to end; 0 = no limit. */
  readonly max_connection_age_grace: number;
}

export interface HttpSettings {
  readonly disable_http_keep_alives: boolean;
  /** Time between two requests of a connection; 0 = no limit. */
  readonly idle_timeout: number;
  /** For the meter that counts for this port; the port itself has no histogram. */
  readonly latency_buckets_ms: readonly number[];
  /** Longest body in bytes, for routes that have no limit of their own. */
  readonly max_body_bytes: number;
  /** Header fields of one request. */
  readonly max_headers: number;
  /** Request line and headers together; 0 = 1 MiB. */
  readonly max_header_bytes: number;
  /** 0 = `read_timeout`. */
  readonly read_header_timeout: number;
  /** For headers and body together; 0 = no limit. */
  readonly read_timeout: number;
  /** From the complete request to the last byte of the reply; 0 = no limit. */
  readonly write_timeout: number;
}

export interface TlsSettings {
  readonly enabled: boolean;
  readonly cert_file: string;
  readonly key_file: string;
  /** Clients must present a certificate of this authority. */
  readonly client_ca_file: string;
  /** Exact common name that a client's certificate must have. */
  readonly allowed_cn: string;
  /** The configuration key of the files, which messages name; absent for `server.tls`. */
  readonly key?: string;
}

export interface AdministrationSettings {
  /** The token that callers send as `authorization: Bearer`; "" = none. */
  readonly token: string;
  /** A file with the token; "" = none. */
  readonly token_path: string;
  /** Names of this server in requests over HTTP, besides IP addresses and loopback names. */
  readonly allowed_hosts: readonly string[];
  /** Needs no credential, even where other machines reach the listener. */
  readonly insecure: boolean;
}

export interface DrainSettings {
  /** Milliseconds during which calls are still accepted while health already reports NOT_SERVING. */
  readonly accept_for: number;
  /** Time that calls in progress then have to end. */
  readonly grace: number;
}

export interface PortSettings {
  readonly listener: ListenerSettings;
  readonly grpc: GrpcSettings;
  readonly http: HttpSettings;
  readonly tls: TlsSettings;
  readonly drain: DrainSettings;
}
