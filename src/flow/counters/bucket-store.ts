// Token buckets by the hash of their keys, for the room `counters`. They count as the buckets in process do, and can move to
// another agent.

import type { Clock } from "#base/clock.ts";
import type { Observer } from "../observer.ts";
import { BucketTables } from "./local/bucket-row.ts";
import { KeyHash } from "./local/keys/key-hash.ts";
import { LocalBuckets } from "./local/local-buckets.ts";

export type { BucketState, LocalBuckets } from "./local/local-buckets.ts";

export interface BucketStoreContext {
  readonly clock: Clock;
  readonly observer: Observer;
  /** Most keys of one limiter. */
  readonly maxKeys: number;
}

export class BucketStore {
  /** Agents with the same seed compute the same hashes. `lo` is 0 without a text. */
  readonly hash: KeyHash;
  readonly context: BucketStoreContext;
  readonly #tables: BucketTables;

  /** `seed` is two 32-bit words. */
  constructor(context: BucketStoreContext, seed: readonly [number, number]) {
    this.context = context;
    this.#tables = new BucketTables(context.maxKeys);
    this.hash = new KeyHash(...seed);
  }

  /** Buckets of one limiter. Each limiter needs its own name. */
  open(name: string): LocalBuckets {
    return new LocalBuckets(
      { ...this.context, keyHash: this.hash, bucketTables: this.#tables },
      name,
    );
  }
}
