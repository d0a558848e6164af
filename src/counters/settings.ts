// The settings of shared counters: `counters.*` and `dist_cache.*` of the configuration.

import type { EngineName } from "./group-engines.ts";

/** `counters.*` of the configuration. */
export interface CountersSettings {
  /** `auto`: the default of the process. */
  readonly engine: "auto" | EngineName;
  readonly lease: LeaseSettings;
  readonly peers: PeersSettings;
  readonly redis: RedisSettings;
}

/** `counters.lease.*` of the configuration. */
export interface LeaseSettings {
  /** Without leases, the owner is asked about each flow. */
  readonly enabled: boolean;
  /** Time for which the owner counts leased tokens as outstanding, ms. */
  readonly duration: number;
  /** Most keys that the agent follows, for all limiters together. For further keys, each flow asks the owner. */
  readonly max_keys: number;
}

/** Certificates of connections between agents. Without them, agents authenticate with the secret of the group. */
export interface PeerTlsSettings {
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  /** Exact common name of the certificates of all agents; empty: any name. */
  readonly allowed_cn: string;
}

/** `counters.peers.*` */
interface PeersSettings {
  /** Milliseconds. */
  readonly timeout: number;
  /** Milliseconds. */
  readonly probe_interval: number;
  readonly max_pending: number;
}

/** `dist_cache.*` */
export interface DistCacheSettings {
  /** `host:port` or `:port`. */
  readonly bind_addr: string;
  readonly memberlist_bind_addr: string;
  readonly memberlist_advertise_addr: string;
  readonly replica_count: number;
  readonly sync_replication: boolean;
  readonly tls: PeerTlsSettings;
}

/** TLS to Redis. */
interface RedisTlsSettings {
  readonly ca_file: string;
  readonly cert_file: string;
  readonly key_file: string;
  readonly insecure_skip_verify: boolean;
}

/** `counters.redis.*` */
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
  readonly tls: RedisTlsSettings;
  readonly namespace: string;
  /** Milliseconds. */
  readonly timeout: number;
  /** Milliseconds. */
  readonly probe_interval: number;
  readonly max_pending: number;
}
