// Token buckets counted in process. A key costs as little memory as possible, and is stored only while its
// bucket is not full.

import type { Clock } from "#base/clock.ts";
import type { Observer } from "../../observer.ts";
import { type EngineAnswer, type LocalEngine, ReusedAnswer, SLACK } from "./counter-engine.ts";
import type { KeyHash } from "./key-hash.ts";
import { RowLayout } from "./key-segment.ts";
import { type EvictionPolicy, KeyTable } from "./key-table.ts";
import { RefillHistory } from "./refill-history.ts";
import { type BucketParams, delayedMark, filled, markAt, waitFor } from "./token-bucket.ts";

export interface LocalBucketsContext {
  readonly clock: Clock;
  readonly observer: Observer;
  readonly keyHash: KeyHash;
  readonly maxKeys: number;
}

/** Id of tokens out of the bucket that keys share when the table is full. */
const OVERFLOW = "overflow";

/** Unit of "last seen": a word holds 13 years of them. */
const SEEN_MS = 100;

/** Row: hash lo, hi, last seen; available, mark. 32 bytes with padding. */
const LAYOUT = Object.freeze(new RowLayout({ words: 3, doubles: 2 }));

export class LocalBuckets implements LocalEngine<BucketParams>, EvictionPolicy {
  readonly #clock: Clock;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  readonly #table: KeyTable;
  readonly #refill = new RefillHistory();
  readonly #answer = new ReusedAnswer();
  readonly #created: number;
  #params: BucketParams | undefined;
  #now = 0;
  /** `#now` in the unit of "last seen". */
  #seen = 0;

  /** The bucket without a key, which is also the one that overflowing keys share. Full until it is used. */
  #sharedUsed = false;
  #sharedAvailable = 0;
  #sharedMark = 0;
  #sharedSeen = 0;

  /** The bucket that is being worked on, filled up to now. */
  #available = 0;
  #mark = 0;

  constructor({ clock, observer, keyHash, maxKeys }: LocalBucketsContext) {
    this.#clock = clock;
    this.#observer = observer;
    this.#hash = keyHash;
    this.#table = new KeyTable(LAYOUT, maxKeys, this);
    this.#created = clock.now();
    this.#now = this.#created;
  }

  get keys(): number {
    return this.#table.count;
  }

  /** Makes new numbers count from now on, also in buckets that have not been used for a while. */
  adopt(params: BucketParams): void {
    this.#params = params;
    this.#refill.change(this.#clock.now(), params.amount, params.intervalMs);
  }

  peek(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#begin(params, now);
    if (value === undefined) this.#openShared(params);
    else if (!this.#openKey(value, params) && want > 0 && !this.#table.hasRoom()) {
      this.#openShared(params);
    }
    return this.#takeOpen(want, params, "");
  }

  take(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#begin(params, now);
    if (value === undefined) return this.#takeShared(want, params, "");
    const known = this.#openKey(value, params);
    const answer = this.#takeOpen(want, params, "");
    if (known) {
      this.#store();
      return answer;
    }
    // A fresh bucket from which nothing was taken is full, and full buckets are not stored.
    if (answer.outcome === "refused" || want === 0) return answer;
    if (this.#table.insert(this.#hash.lo, this.#hash.hi)) {
      this.#store();
      return answer;
    }
    this.#observer.anomaly("keys_overflow");
    return this.#takeShared(want, params, OVERFLOW);
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    this.#begin(params, this.#clock.now());
    if (value === undefined || id === OVERFLOW) {
      this.#openShared(params);
      this.#available = Math.min(params.capacity, this.#available + amount);
      this.#storeShared();
      return true;
    }
    // A key that is not stored any more was full or idle for too long: there is nothing to add to.
    if (!this.#openKey(value, params)) return false;
    this.#available = Math.min(params.capacity, this.#available + amount);
    this.#store();
    return true;
  }

  spent(doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean {
    const params = this.#params;
    if (params === undefined) return false;
    if (this.#idle(words[w + 2] ?? 0, params)) return true;
    const mark = doubles[d + 1] ?? 0;
    const next = markAt(mark, this.#now, params);
    return filled(doubles[d] ?? 0, mark, next, params, this.#refill) >= params.capacity;
  }

  forget(): void {
    // A bucket has no state outside of its row.
  }

  #begin(params: BucketParams, now: number): void {
    this.#now = now;
    this.#seen = Math.floor((now - this.#created) / SEEN_MS);
    if (params !== this.#params) this.adopt(params);
  }

  /** Opens the bucket of a key; false when none is stored and a full one is opened. */
  #openKey(value: string, params: BucketParams): boolean {
    this.#hash.of(value);
    const table = this.#table;
    if (!table.find(this.#hash.lo, this.#hash.hi)) {
      this.#openFull(params);
      return false;
    }
    if (this.#idle(table.words[table.w + 2] ?? 0, params)) {
      this.#openFull(params);
      return true;
    }
    const { doubles, d } = table;
    this.#available = doubles[d] ?? 0;
    this.#mark = doubles[d + 1] ?? 0;
    this.#fill(params);
    return true;
  }

  #openShared(params: BucketParams): void {
    if (!this.#sharedUsed || this.#idle(this.#sharedSeen, params)) {
      this.#openFull(params);
      return;
    }
    this.#available = this.#sharedAvailable;
    this.#mark = this.#sharedMark;
    this.#fill(params);
  }

  #openFull(params: BucketParams): void {
    this.#available = params.capacity;
    this.#mark = this.#now;
  }

  /** Fills the open bucket up to now. Its numbers are no arguments, since each would be an object on the heap. */
  #fill(params: BucketParams): void {
    const mark = this.#mark;
    const next = markAt(mark, this.#now, params);
    this.#available = filled(this.#available, mark, next, params, this.#refill);
    this.#mark = next;
  }

  /** Decides by the open bucket, and takes from it. */
  #takeOpen(want: number, params: BucketParams, id: string): ReusedAnswer {
    const answer = this.#answer;
    if (params.delayed && this.#available >= params.capacity) {
      this.#mark = delayedMark(this.#now, params);
    }
    const deficit = want - this.#available;
    const granted = want <= 0 || deficit <= SLACK;
    if (granted) this.#available -= want;
    answer.outcome = granted ? "granted" : "refused";
    answer.remaining = Math.max(0, this.#available);
    answer.current = params.capacity - answer.remaining;
    answer.waitMs = granted ? 0 : waitFor(deficit, this.#mark, this.#now, params);
    answer.id = id;
    return answer;
  }

  #takeShared(want: number, params: BucketParams, id: string): EngineAnswer {
    this.#openShared(params);
    const answer = this.#takeOpen(want, params, id);
    this.#storeShared();
    return answer;
  }

  #store(): void {
    const table = this.#table;
    table.doubles[table.d] = this.#available;
    table.doubles[table.d + 1] = this.#mark;
    table.words[table.w + 2] = this.#seen;
  }

  #storeShared(): void {
    this.#sharedUsed = true;
    this.#sharedAvailable = this.#available;
    this.#sharedMark = this.#mark;
    this.#sharedSeen = this.#seen;
  }

  /** Certainly unused for longer than allowed: the unit is coarse, so one more unit must have passed. */
  #idle(seen: number, params: BucketParams): boolean {
    return params.maxIdleMs > 0 && (this.#seen - seen - 1) * SEEN_MS > params.maxIdleMs;
  }
}
