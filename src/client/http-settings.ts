// Settings of HTTP clients under their documented configuration keys, so that other rooms can name these types
// without loading the client.

/** ClientTLSConfig. */
export interface ClientTlsSettings {
  /** Empty: the platform's certificate authorities. */
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  readonly insecure_skip_verify: boolean;
  readonly key_log_file: string;
}

/** ProxyConfig. */
export interface ProxySettings {
  /** A URL or host:port; empty means no proxy. */
  readonly http: string;
  readonly https: string;
  readonly no_proxy: readonly string[];
}

/** Environment variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** HTTPClientConfig. Times are in milliseconds; 0 means no limit. */
export interface HttpClientSettings {
  readonly disable_compression: boolean;
  readonly disable_keep_alives: boolean;
  readonly idle_connection_timeout: number;
  readonly key_log_file: string;
  readonly max_conns_per_host: number;
  readonly max_idle_connections: number;
  readonly max_idle_connections_per_host: number;
  readonly max_response_header_bytes: number;
  /** Delay before TCP keep-alive probes; a negative value turns them off. */
  readonly network_keep_alive: number;
  readonly network_timeout: number;
  readonly response_header_timeout: number;
  readonly tls_handshake_timeout: number;
  readonly timeout: number;
  readonly use_proxy: boolean;
  readonly proxy_connect_header: Readonly<Record<string, readonly string[]>>;
  readonly tls: ClientTlsSettings;
}
