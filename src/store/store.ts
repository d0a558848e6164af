// The store between controllers and agents: a key-value store with revisions that can be watched. Every
// implementation passes test/store/suite.ts.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";

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
  /** Revision of the commit that created the key. It is not changed by later writes, until the key is deleted. */
  readonly created: number;
  /** True if the key was last written under a lease, so that it ends with its writer. */
  readonly leased: boolean;
}

/** The net difference between two states that a watcher sees, in key order. */
export interface StoreUpdate {
  readonly revision: number;
  readonly puts: readonly Entry[];
  readonly deletes: readonly string[];
  /**
   * True when this state does not follow from the one before: the store lost its data, went back to an older state, or is
   * another one. Its deletes were losses, not deletions.
   */
  readonly reset?: boolean;
}

/**
 * Ties keys to the life of their owner: they are deleted when it revokes the lease or stops renewing it. A lease that
 * was lost although its owner lives is made again, and its keys are written again.
 */
export interface Lease {
  revoke(): Promise<void>;
  /** A key belongs to another owner now: it stays as it is, and is not written again with the lease. */
  release(key: string): void;
}

export interface LeaseOptions {
  /** Milliseconds after which the keys of an owner that no longer responds are deleted; the store's own by default. */
  readonly ttlMs?: number;
  /** Called each time the lease was lost and is made again. Its keys had gone in between, and are there again. */
  readonly remade?: () => void;
}

export interface Leadership {
  /** Aborts when another process may have become leader. */
  readonly lost: AbortSignal;
  /** Holds as long as this process leads: a commit with this guard cannot be made by a leader that was deposed. */
  readonly guard: Guard;
  resign(): Promise<void>;
}

export interface CommitOptions {
  readonly guards?: readonly Guard[];
  readonly lease?: Lease;
  /** Milliseconds after which a store that does not answer is given up; the store's own by default. */
  readonly timeoutMs?: number;
}

export interface Store {
  list(
    prefix: string,
    options?: Pick<CommitOptions, "timeoutMs">,
  ): Promise<{ readonly revision: number; readonly entries: readonly Entry[] }>;
  /**
   * Writes all of `ops` in one revision and returns it; writes nothing and returns undefined when a guard fails. Of
   * several operations on one key the last counts. A store with a limit on the size of a commit writes a larger one in
   * several revisions, puts before deletes, each of them under the guards, and returns the last revision.
   */
  commit(ops: readonly Op[], options?: CommitOptions): Promise<number | undefined>;
  lease(options?: LeaseOptions): Promise<Lease>;
  /**
   * Yields the whole state under the prefixes as a first batch (possibly empty), then every change. Ends when
   * the signal aborts or the store closes. A batch never splits what a commit changed under one prefix.
   */
  watch(prefixes: readonly string[], signal: AbortSignal): AsyncIterable<StoreUpdate>;
  /**
   * Resolves once this process is the leader of the named election. Others can read `candidate`, the name of this
   * process, under a key that starts with `<name>/`.
   */
  lead(name: string, signal: AbortSignal, candidate?: string): Promise<Leadership>;
  close(): Promise<void>;
}

/** Opens a store that may be away. */
export type OpenStore = (context: {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
  /**
   * Called with the reason when the store cannot be used, and with undefined when it can: for the first time,
   * or again.
   */
  readonly usable: (fault: Fault | undefined) => void;
}) => Store;
