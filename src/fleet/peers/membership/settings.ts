// The settings of counters that agents keep for each other: `counters.peers` and `dist_cache` of the configuration.

/** Certificates of connections between agents; without them agents know each other by the secret of their group. */
export interface PeerTlsSettings {
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  /** Exact common name of the certificates of all agents; empty: any of the authority. */
  readonly allowed_cn: string;
}

export interface PeersSettings {
  /** Milliseconds. */
  readonly timeout: number;
  /** Milliseconds. */
  readonly probe_interval: number;
  readonly max_pending: number;
}

export interface DistCacheSettings {
  /** `host:port` or `:port`. */
  readonly bind_addr: string;
  readonly memberlist_bind_addr: string;
  readonly memberlist_advertise_addr: string;
  readonly replica_count: number;
  readonly sync_replication: boolean;
  readonly tls: PeerTlsSettings;
}
