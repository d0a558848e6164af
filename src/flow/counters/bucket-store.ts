// Token buckets that an agent counts for its whole group, by the hash of their keys: the same counting as in process, in a
// form that another room can use and move between agents.

import type { Clock } from "#base/clock.ts";
import type { Observer } from "../observer.ts";
import { BucketTables } from "./local/bucket-row.ts";
import { KeyHash } from "./local/keys/key-hash.ts";
import { OwnedBuckets } from "./owned-buckets.ts";

export interface BucketStoreContext {
  readonly clock: Clock;
  readonly observer: Observer;
  /** Most keys of one limiter. */
  readonly maxKeys: number;
}

export class BucketStore {
  /** Agents with the same seed give a text the same hash. `lo` is 0 for no text. */
  readonly hash: KeyHash;
  readonly #context: BucketStoreContext;
  readonly #tables: BucketTables;

  /** `seed` is two 32-bit words. */
  constructor(context: BucketStoreContext, seed: readonly [number, number]) {
    this.#context = context;
    this.#tables = new BucketTables(context.maxKeys);
    this.hash = new KeyHash(...seed);
  }

  /** Buckets of one limiter. Names differ. */
  open(name: string): OwnedBuckets {
    return new OwnedBuckets(
      { ...this.#context, keyHash: this.hash, bucketTables: this.#tables },
      name,
    );
  }
}
