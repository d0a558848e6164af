// Token buckets counted in process. A key costs as little memory as possible, and is stored only while one of its
// buckets is not full.

import type { Clock } from "#base/clock.ts";
import type { Observer } from "../../observer.ts";
import { type EngineAnswer, type LocalEngine, ReusedAnswer, SLACK } from "./counter-engine.ts";
import type { KeyHash } from "./key-hash.ts";
import type { Column, EvictionPolicy } from "./key-table.ts";
import { RefillHistory } from "./refill-history.ts";
import { SharedTables } from "./shared-tables.ts";
import { type BucketParams, delayedMark, filled, markAt, waitFor } from "./token-bucket.ts";

export interface LocalBucketsContext {
  readonly clock: Clock;
  readonly observer: Observer;
  readonly keyHash: KeyHash;
  readonly maxKeys: number;
  /** Where limiters that are always asked together keep their buckets. */
  readonly bucketTables: SharedTables;
}

/** Id of tokens out of the bucket that keys share when the table is full. */
const OVERFLOW = "overflow";

/** Unit of "last seen": a word holds 13 years of them. */
const SEEN_MS = 100;

/** A bucket in a row: when it was last seen, or 0 for one that is full; available, mark. A row with one has 32 bytes. */
const SHAPE = { words: 1, doubles: 2 } as const;

export function bucketTables(maxKeys: number): SharedTables {
  return new SharedTables(SHAPE, maxKeys);
}

export class LocalBuckets implements LocalEngine<BucketParams>, EvictionPolicy {
  readonly #clock: Clock;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  readonly #maxKeys: number;
  readonly #group: string;
  #tables: SharedTables;
  /** Taken with the first key: limiters without keys, and rules that are only tried, need none. */
  #column: Column | undefined;
  readonly #refill = new RefillHistory();
  readonly #answer = new ReusedAnswer();
  readonly #created: number;
  #params: BucketParams | undefined;
  #now = 0;
  /** `#now` in the unit of "last seen", from 1 on. */
  #seen = 0;

  /** The bucket without a key, which is also the one that overflowing keys share. Full until it is used. */
  #sharedUsed = false;
  #sharedAvailable = 0;
  #sharedMark = 0;
  #sharedSeen = 0;

  /** The bucket that is being worked on, filled up to now. */
  #available = 0;
  #mark = 0;

  /** Limiters of one group are always asked together and about the same key. */
  constructor(context: LocalBucketsContext, group: string) {
    this.#clock = context.clock;
    this.#observer = context.observer;
    this.#hash = context.keyHash;
    this.#maxKeys = context.maxKeys;
    this.#tables = context.bucketTables;
    this.#group = group;
    this.#created = this.#clock.now();
    this.#now = this.#created;
  }

  /** Number of keys for which this limiter or another of its group has a bucket. */
  get keys(): number {
    return this.#column?.table.count ?? 0;
  }

  /** Forgets all buckets. A check that began before may still ask, and then counts in buckets that nobody shares. */
  close(): void {
    if (this.#column !== undefined) this.#tables.leave(this.#group, this.#column);
    this.#column = undefined;
    this.#tables = bucketTables(this.#maxKeys);
  }

  /** Makes new numbers count from now on, also in buckets that have not been used for a while. */
  adopt(params: BucketParams): void {
    this.#params = params;
    this.#refill.change(this.#clock.now(), params.amount, params.intervalMs);
  }

  peek(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#begin(params, now);
    this.#answer.full = false;
    if (value === undefined) this.#openShared(params);
    else if (this.#openKey(value, params) === "absent" && want > 0) {
      if (!this.#joined().table.hasRoom(now)) {
        this.#openShared(params);
        this.#answer.full = true;
      }
    }
    return this.#takeOpen(want, params, "");
  }

  take(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#begin(params, now);
    this.#answer.full = false;
    if (value === undefined) return this.#takeShared(want, params, "");
    const found = this.#openKey(value, params);
    const answer = this.#takeOpen(want, params, "");
    // A fresh bucket from which nothing was taken is full, and full buckets are not stored.
    if (found !== "used" && (answer.outcome === "refused" || want === 0)) return answer;
    if (found !== "absent" || this.#insert(now)) {
      this.#store();
      return answer;
    }
    this.#observer.anomaly("keys_overflow");
    answer.full = true;
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
    if (this.#openKey(value, params) !== "used") return false;
    this.#available = Math.min(params.capacity, this.#available + amount);
    this.#store();
    return true;
  }

  spent(now: number, doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean {
    const seen = words[w] ?? 0;
    if (seen === 0) return true;
    const params = this.#params;
    if (params === undefined) return false;
    if (this.#idle(seen, params, this.#seenAt(now))) return true;
    const mark = doubles[d + 1] ?? 0;
    const next = markAt(mark, now, params);
    return filled(doubles[d] ?? 0, mark, next, params, this.#refill) >= params.capacity;
  }

  forget(): void {
    // A bucket has no state outside of its row.
  }

  #begin(params: BucketParams, now: number): void {
    this.#now = now;
    this.#seen = this.#seenAt(now);
    if (params !== this.#params) this.adopt(params);
  }

  /** Never 0, which marks buckets that were not used. */
  #seenAt(now: number): number {
    return Math.floor((now - this.#created) / SEEN_MS) + 1;
  }

  #joined(): Column {
    this.#column ??= this.#tables.join(this.#group, this);
    return this.#column;
  }

  /** Adds a row for the key that was opened. */
  #insert(now: number): boolean {
    return this.#joined().table.insert(this.#hash.lo, this.#hash.hi, now);
  }

  /** Opens the bucket of a key: one that is stored, or a full one where none is, with or without a row for it. */
  #openKey(value: string, params: BucketParams): "used" | "fresh" | "absent" {
    this.#hash.of(value);
    const { table, place } = this.#joined();
    if (!table.find(this.#hash.lo, this.#hash.hi)) {
      this.#openFull(params);
      return "absent";
    }
    const seen = table.words[table.w + place] ?? 0;
    if (seen === 0 || this.#idle(seen, params, this.#seen)) {
      this.#openFull(params);
      return seen === 0 ? "fresh" : "used";
    }
    const { doubles } = table;
    const at = table.d + 2 * place;
    this.#available = doubles[at] ?? 0;
    this.#mark = doubles[at + 1] ?? 0;
    this.#fill(params);
    return "used";
  }

  #openShared(params: BucketParams): void {
    if (!this.#sharedUsed || this.#idle(this.#sharedSeen, params, this.#seen)) {
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
    const { table, place } = this.#joined();
    const at = table.d + 2 * place;
    table.doubles[at] = this.#available;
    table.doubles[at + 1] = this.#mark;
    table.words[table.w + place] = this.#seen;
  }

  #storeShared(): void {
    this.#sharedUsed = true;
    this.#sharedAvailable = this.#available;
    this.#sharedMark = this.#mark;
    this.#sharedSeen = this.#seen;
  }

  /** Certainly unused for longer than allowed: the unit is coarse, so one more unit must have passed. */
  #idle(seen: number, { maxIdleMs }: BucketParams, now: number): boolean {
    return maxIdleMs > 0 && (now - seen - 1) * SEEN_MS > maxIdleMs;
  }
}
