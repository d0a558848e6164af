// A count-min sketch of the buckets that a full key table has forgotten. A key that returns gets at most the tokens that
// its bucket had, so forgetting a bucket never lets more pass. It may get fewer if other keys share all of its cells.

import type { BucketParams } from "../counter-engine.ts";
import type { RefillHistory } from "./refill-history.ts";

/** Cells of each key: one in each row. */
const ROWS = 4;
/** Keys of the table for each cell of a row. */
const KEYS_PER_CELL = 16;
const MIN_CELLS = 1_024;

/** Part of a fill that rounding may lose. */
const FILL_SLACK = 1e-9;

/** A bucket, as `local/token-bucket.ts` computes with it. */
export interface BucketLevel {
  /** Tokens. */
  available: number;
  /** The time up to which the bucket has been filled, ms. */
  mark: number;
}

/**
 * Each cell holds two maxima over its buckets: the tokens that a bucket lacked of the largest capacity so far, and the time
 * at which it will be full. That time is measured in tokens, as the total fill of `RefillHistory`, so that changes of the
 * rate need no work.
 */
export class ForgottenBuckets {
  /** Result of `find`. */
  readonly found: BucketLevel = { available: 0, mark: 0 };
  readonly #refill: RefillHistory;
  readonly #mask: number;
  readonly #missing: Float64Array;
  readonly #fullAt: Float64Array;
  /** The largest capacity so far: a bucket gains no tokens when the capacity falls and rises again. */
  #capacity = 0;
  /** The latest time in any cell. */
  #lastFullAt = Number.NEGATIVE_INFINITY;

  /** `maxKeys`: the keys that the table holds. */
  constructor(refill: RefillHistory, maxKeys: number) {
    this.#refill = refill;
    const cells = 2 ** Math.ceil(Math.log2(Math.max(MIN_CELLS, maxKeys / KEYS_PER_CELL)));
    this.#mask = cells - 1;
    this.#missing = new Float64Array(cells * ROWS);
    this.#fullAt = new Float64Array(cells * ROWS).fill(Number.NEGATIVE_INFINITY);
  }

  /** A larger capacity counts from now on: it adds no tokens to the buckets, so they lack that many more. */
  adopt(params: BucketParams, now: number): void {
    const more = params.capacity - this.#capacity;
    if (more <= 0) return;
    this.#capacity = params.capacity;
    const filled = this.#refill.filledBy(now);
    if (this.#lastFullAt <= filled) return;
    const later = fillsFor(more, params);
    this.#lastFullAt += later;
    for (const [cell, fullAt] of this.#fullAt.entries()) {
      if (fullAt <= filled) continue;
      this.#missing[cell] = (this.#missing[cell] ?? 0) + more;
      this.#fullAt[cell] = fullAt + later;
    }
  }

  /** Remembers the bucket of a key, which has been filled up to `now`. The capacity has been adopted. */
  add(lo: number, hi: number, level: BucketLevel, params: BucketParams, now: number): void {
    const { available, mark } = level;
    if (available >= params.capacity) return;
    const missing = this.#capacity - available;
    const filled = this.#refill.filledBy(now);
    const fullAt = this.#refill.filledBy(mark) + fillsFor(missing, params);
    this.#lastFullAt = Math.max(fullAt, this.#lastFullAt);
    for (let row = 0; row < ROWS; row++) {
      const cell = this.#cell(row, lo, hi);
      const inUse = (this.#fullAt[cell] ?? 0) > filled;
      this.#missing[cell] = inUse ? Math.max(missing, this.#missing[cell] ?? 0) : missing;
      this.#fullAt[cell] = inUse ? Math.max(fullAt, this.#fullAt[cell] ?? 0) : fullAt;
    }
  }

  /** Sets `found` to the least that the bucket of a key may hold. False if the bucket is full. */
  find(lo: number, hi: number, params: BucketParams, now: number): boolean {
    const filled = this.#refill.filledBy(now);
    let missing = Number.POSITIVE_INFINITY;
    let fullAt = Number.POSITIVE_INFINITY;
    for (let row = 0; row < ROWS; row++) {
      const cell = this.#cell(row, lo, hi);
      fullAt = Math.min(fullAt, this.#fullAt[cell] ?? 0);
      if (fullAt <= filled) return false;
      missing = Math.min(missing, this.#missing[cell] ?? 0);
    }
    const { capacity, amount, intervalMs, continuous, delayed } = params;
    const most = this.#capacity;
    // The rate may have changed since: filling takes no longer than it would from now on.
    const longest = fillsFor(missing, params) + (delayed ? fillsFor(most, params) : 0);
    const rest = Math.min(longest, fullAt - filled);
    const { found } = this;
    if (amount <= 0) {
      found.available = most - missing;
      found.mark = now;
    } else if (continuous) {
      const lacks = Math.min(missing, rest);
      found.available = most - lacks;
      found.mark = now + ((rest - lacks) * intervalMs) / amount;
    } else {
      const lacks = Math.min(missing, fillsFor(rest, params));
      found.available = most - lacks;
      found.mark = now + ((rest - fillsFor(lacks, params)) * intervalMs) / amount;
    }
    if (found.available < capacity) return true;
    found.available = capacity;
    return found.mark > now;
  }

  /** The place of a key's cell in a row. Both words of the hash count, so that two keys hardly share all cells. */
  #cell(row: number, lo: number, hi: number): number {
    return row * (this.#mask + 1) + (((lo + Math.imul(row, hi | 1)) >>> 0) & this.#mask);
  }
}

/** The fill that these tokens need: a multiple of the amount if the bucket is filled in steps. */
function fillsFor(tokens: number, { amount, continuous }: BucketParams): number {
  return continuous || amount <= 0 ? tokens : Math.ceil(tokens / amount - FILL_SLACK) * amount;
}
