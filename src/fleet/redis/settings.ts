// The settings of Redis as counters need them: `counters.redis.*` of the configuration.

export interface TlsSettings {
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  readonly insecure_skip_verify: boolean;
}

export interface RedisSettings {
  /** `redis://host:port/database`; `rediss:` with TLS. */
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly cluster: boolean;
  /** `host:port` of further nodes of the cluster. */
  readonly nodes: readonly string[];
  readonly sentinel: {
    /** Name of the group of servers; empty without Sentinel. */
    readonly master: string;
    /** `host:port` of each Sentinel. */
    readonly addresses: readonly string[];
    readonly username: string;
    readonly password: string;
  };
  readonly tls: TlsSettings;
  readonly namespace: string;
  /** Milliseconds. */
  readonly timeout: number;
  /** Milliseconds. */
  readonly probe_interval: number;
  readonly max_pending: number;
}
