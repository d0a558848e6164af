// The store between controllers and agents: a key-value store with revisions that can be watched. Every
// implementation passes test/store/suite.ts.

export type Op =
  | { readonly kind: "put"; readonly key: string; readonly value: Uint8Array }
  | { readonly kind: "delete"; readonly key: string };

/** Condition on the state before a commit: the revision that last wrote the key; 0 means the key must not exist. */
export interface Guard {
  readonly key: string;
  readonly revision: number;
}

export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  /** Revision of the commit that last wrote the key. */
  readonly revision: number;
}

/** The net difference between two states that a watcher sees, in key order. */
export interface Batch {
  readonly revision: number;
  readonly puts: readonly Entry[];
  readonly deletes: readonly string[];
}

/** Ties keys to the life of their owner: they are deleted when it revokes the lease or stops renewing it. */
export interface Lease {
  revoke(): Promise<void>;
  /** Aborts when the lease expires without having been revoked. */
  readonly lost: AbortSignal;
}

export interface Leadership {
  /** Aborts when another process may have become leader. */
  readonly lost: AbortSignal;
  resign(): Promise<void>;
}

export interface Store {
  list(prefix: string): Promise<{ readonly revision: number; readonly entries: readonly Entry[] }>;
  /** Writes all of `ops` in one revision and returns it; writes nothing and returns undefined when a guard fails. */
  commit(
    ops: readonly Op[],
    options?: { guards?: readonly Guard[]; lease?: Lease },
  ): Promise<number | undefined>;
  lease(ttlMs: number): Promise<Lease>;
  /**
   * Yields the whole state under the prefixes as a first batch (possibly empty), then every change. Ends when
   * the signal aborts or the store closes.
   */
  watch(prefixes: readonly string[], signal: AbortSignal): AsyncIterable<Batch>;
  /** Resolves once this process is the leader of the named election. */
  lead(name: string, signal: AbortSignal): Promise<Leadership>;
  close(): Promise<void>;
}
