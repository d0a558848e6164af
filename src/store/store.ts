// Where the controller leaves rules and decisions and agents find them. Two makes: memory (one process)
// and, later, etcd; both pass test/store/suite.ts.

export type Op =
  | { readonly kind: "put"; readonly key: string; readonly value: Uint8Array }
  | { readonly kind: "delete"; readonly key: string };

/** A condition on the state before a commit. `revision` 0 means: the key must not exist. */
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

/** What changed between two revisions a watcher saw: the net difference, in key order. */
export interface Batch {
  readonly revision: number;
  readonly puts: readonly Entry[];
  readonly deletes: readonly string[];
}

/** Keys that live as long as their owner: revoked when it ends, lost when it dies. */
export interface Lease {
  revoke(): Promise<void>;
  /** Aborted when the lease is gone without having been revoked. */
  readonly lost: AbortSignal;
}

export interface Leadership {
  /** Aborted when somebody else may lead. */
  readonly lost: AbortSignal;
  resign(): Promise<void>;
}

export interface Store {
  list(prefix: string): Promise<{ readonly revision: number; readonly entries: readonly Entry[] }>;
  /** Writes all of `ops` in one revision, or none when a guard fails (`undefined`). */
  commit(
    ops: readonly Op[],
    options?: { guards?: readonly Guard[]; lease?: Lease },
  ): Promise<number | undefined>;
  lease(ttlMs: number): Promise<Lease>;
  /** First the whole state under the prefixes as one batch (possibly empty), then every change. Ends with the signal. */
  watch(prefixes: readonly string[], signal: AbortSignal): AsyncIterable<Batch>;
  /** Waits until this process leads under that name. */
  lead(name: string, signal: AbortSignal): Promise<Leadership>;
  close(): Promise<void>;
}
