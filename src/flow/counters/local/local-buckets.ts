// Token buckets counted in process. A key costs as little memory as possible, and is stored only while one of its
// buckets is not full.

import type { Clock } from "#base/clock.ts";
import type { Observer } from "../../observer.ts";
import {
  type BucketEngine,
  type BucketParams,
  type EngineAnswer,
  type LocalEngine,
  ReusedAnswer,
  SLACK,
} from "../counter-engine.ts";
import {
  type BucketPlace,
  BucketRow,
  BucketTables,
  COPY,
  isIdle,
  placeIn,
  SEEN_MS,
  UNUSED,
} from "./bucket-row.ts";
import type { KeyHash } from "./key-hash.ts";
import type { Column, EvictionPolicy, KeyTable } from "./key-table.ts";
import { RefillHistory } from "./refill-history.ts";
import { delayedMark, fill, filled, markAt, waitFor } from "./token-bucket.ts";

export interface LocalBucketsContext {
  readonly clock: Clock;
  readonly observer: Observer;
  readonly keyHash: KeyHash;
  readonly maxKeys: number;
  /** The tables of limiters that are always asked together. */
  readonly bucketTables: BucketTables;
}

/** A bucket as it moves between agents. */
export interface BucketState {
  /** Tokens; negative when they are owed. */
  readonly available: number;
  /** The time up to which it is filled. */
  readonly mark: number;
}

/** Id of tokens out of the bucket that keys share when the table is full. */
const OVERFLOW = "overflow";

export class LocalBuckets implements LocalEngine<BucketParams>, BucketEngine, EvictionPolicy {
  readonly #clock: Clock;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  readonly #maxKeys: number;
  readonly #group: string;
  #tables: BucketTables;
  /** Taken with the first key: limiters without keys, and rules that are only tried, need none. */
  #column: Column | undefined;
  readonly #refill = new RefillHistory();
  readonly #answer = new ReusedAnswer();
  readonly #created: number;
  #owing = false;
  #params: BucketParams | undefined;
  /** The bucket without a key, which is also the one that overflowing keys share. */
  #shared: BucketRow | undefined;

  /** Limiters of one group are always asked together and about the same key. */
  constructor(context: LocalBucketsContext, group: string) {
    this.#clock = context.clock;
    this.#observer = context.observer;
    this.#hash = context.keyHash;
    this.#maxKeys = context.maxKeys;
    this.#tables = context.bucketTables;
    this.#group = group;
    this.#created = this.#clock.now();
  }

  /** Number of keys for which this limiter or another of its group has a bucket. */
  get keys(): number {
    return this.#column?.table.count ?? 0;
  }

  /** Forgets all buckets. A check that began before may still ask, and then counts in buckets that nobody shares. */
  close(): void {
    if (this.#column !== undefined) this.#tables.leave(this.#group, this.#column);
    this.#column = undefined;
    this.#tables = new BucketTables(this.#maxKeys);
  }

  /** Makes new numbers count from now on, also in buckets that have not been used for a while. */
  adopt(params: BucketParams): void {
    this.#params = params;
    this.#refill.change(this.#clock.now(), params.amount, params.intervalMs);
  }

  peek(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    if (value !== undefined) this.#hash.of(value);
    return this.peekHashed(value !== undefined, want, params, now);
  }

  /** As `peek`, for the key that the key hash was set to, or for the bucket without a key. */
  peekHashed(keyed: boolean, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#use(params);
    const { scratch } = this.#tables;
    const { doubles, words } = scratch;
    let full = false;
    if (!keyed) scratch.copy(this.#sharedRow());
    else {
      const { table, place } = this.#columnHashed();
      if (table.find(this.#hash.lo, this.#hash.hi)) scratch.copy(table, place);
      else {
        words[0] = UNUSED;
        full = want > 0 && !table.hasRoom(now);
        if (full) scratch.copy(this.#sharedRow());
      }
    }
    const answer = this.#take(doubles, 0, words, 0, want, params, now);
    answer.full = full;
    return answer;
  }

  take(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#use(params);
    if (value === undefined) return this.#takeShared(want, params, now);
    this.#hash.of(value);
    return this.#takeHashed(want, params, now);
  }

  /** As `take`, for the key that the key hash was set to, or for the bucket without a key. */
  takeHashed(keyed: boolean, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#use(params);
    return keyed ? this.#takeHashed(want, params, now) : this.#takeShared(want, params, now);
  }

  /**
   * As `takeHashed`, but takes more than there is, too: what fills the bucket pays that first. The wait is until nothing
   * is owed.
   */
  oweHashed(keyed: boolean, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#owing = true;
    const answer = this.takeHashed(keyed, want, params, now);
    this.#owing = false;
    return answer;
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    if (value !== undefined) this.#hash.of(value);
    return this.giveBackHashed(value !== undefined, amount, id, params);
  }

  /** As `giveBack`, for the key that the key hash was set to, or for the bucket without a key. */
  giveBackHashed(keyed: boolean, amount: number, id: string, params: BucketParams): boolean {
    this.#use(params);
    const now = this.#clock.now();
    if (!keyed || id === OVERFLOW) {
      const { doubles, words } = this.#sharedRow();
      this.#add(doubles, 0, words, 0, amount, params, now);
      return true;
    }
    const { table, place } = this.#columnHashed();
    // A key that is not stored any more was full or idle for too long: there is nothing to add to.
    if (!table.find(this.#hash.lo, this.#hash.hi)) return false;
    const w = table.w + place;
    if (table.words[w] === UNUSED) return false;
    this.#add(table.doubles, table.d + 2 * place, table.words, w, amount, params, now);
    return true;
  }

  charge(value: string | undefined, amount: number, id: string, params: BucketParams): void {
    if (value !== undefined) this.#hash.of(value);
    this.oweHashed(value !== undefined && id !== OVERFLOW, amount, params, this.#clock.now());
  }

  spent(now: number, doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean {
    const seen = words[w] ?? UNUSED;
    if (seen === UNUSED) return true;
    const params = this.#params;
    if (params === undefined) return false;
    if (isIdle(seen, params, this.#seenAt(now))) return true;
    const mark = doubles[d + 1] ?? 0;
    const next = markAt(mark, now, params);
    return filled(doubles[d] ?? 0, mark, next, params, this.#refill) >= params.capacity;
  }

  forget(): void {
    // A bucket has no state outside of its row.
  }

  /** Visits the hash of every key that has a bucket, 0 and 0 for the one without a key. Nothing may change meanwhile. */
  each(visit: (lo: number, hi: number) => void): void {
    if (this.#shared !== undefined) visit(0, 0);
    this.#column?.table.each(visit);
  }

  /** A bucket filled up to now. Undefined when it is not in use. */
  read(lo: number, hi: number): BucketState | undefined {
    const row = this.#rowOf(lo, hi);
    if (row === undefined || !this.#refresh(row, this.#clock.now())) return undefined;
    return { available: row.doubles[row.d] ?? 0, mark: row.doubles[row.d + 1] ?? 0 };
  }

  /**
   * Puts the bucket of a key that another agent counts (a copy), or counted until now. What was taken here as well is
   * subtracted from the latter. False when there is no room.
   */
  put(lo: number, hi: number, bucket: BucketState, how: "copy" | "take over"): boolean {
    const now = this.#clock.now();
    if (lo !== 0 && this.#rowOf(lo, hi) === undefined) {
      this.#hash.set(lo, hi);
      if (!this.#columnHashed().table.insert(lo, hi, now)) return false;
    }
    const row = lo === 0 ? this.#sharedRow() : this.#rowOf(lo, hi);
    if (row === undefined) return false;
    const { doubles, d, words, w } = row;
    const { available, mark } = bucket;
    const counted = ((words[w] ?? UNUSED) & COPY) === 0 && this.#refresh(row, now);
    if (how === "take over" && counted) {
      const capacity = this.#params?.capacity ?? 0;
      doubles[d] = Math.max(-capacity, (doubles[d] ?? 0) + available - capacity);
      doubles[d + 1] = Math.max(mark, doubles[d + 1] ?? 0);
    } else {
      doubles[d] = available;
      doubles[d + 1] = mark;
    }
    words[w] = how === "copy" ? this.#seenAt(now) + COPY : this.#seenAt(now);
    return true;
  }

  remove(lo: number, hi: number): void {
    if (lo === 0) this.#shared = undefined;
    else this.#column?.table.remove(lo, hi);
  }

  #rowOf(lo: number, hi: number): BucketPlace | undefined {
    if (lo === 0) return this.#shared;
    const column = this.#column;
    return column?.table.find(lo, hi) ? placeIn(column.table, column.place) : undefined;
  }

  /** Fills a bucket up to now; false when it is not in use. */
  #refresh({ doubles, d, words, w }: BucketPlace, now: number): boolean {
    const params = this.#params;
    const seen = words[w] ?? UNUSED;
    if (params === undefined || seen === UNUSED || isIdle(seen, params, this.#seenAt(now)))
      return false;
    fill(doubles, d, now, params, this.#refill);
    return true;
  }

  #use(params: BucketParams): void {
    if (params !== this.#params) this.adopt(params);
  }

  /** Takes from the bucket of the key that was hashed last. */
  #takeHashed(want: number, params: BucketParams, now: number): ReusedAnswer {
    const { table, place } = this.#columnHashed();
    if (!table.find(this.#hash.lo, this.#hash.hi)) return this.#takeNew(table, want, params, now);
    const d = table.d + 2 * place;
    const w = table.w + place;
    return this.#take(table.doubles, d, table.words, w, want, params, now);
  }

  #columnHashed(): Column {
    this.#column ??= this.#tables.join(this.#group, this);
    return this.#column;
  }

  /** Takes from a bucket, which is given by its arrays and offsets. One that is unused stays so if nothing is taken. */
  #take(
    doubles: Float64Array,
    d: number,
    words: Uint32Array,
    w: number,
    want: number,
    params: BucketParams,
    now: number,
  ): ReusedAnswer {
    const { capacity } = params;
    const seen = words[w] ?? UNUSED;
    const seenNow = this.#seenAt(now);
    let available = capacity;
    let mark = now;
    if (seen !== UNUSED && !isIdle(seen, params, seenNow)) {
      fill(doubles, d, now, params, this.#refill);
      available = doubles[d] ?? 0;
      mark = doubles[d + 1] ?? 0;
    }
    if (params.delayed && available >= capacity) mark = delayedMark(now, params);
    const answer = this.#answer;
    const deficit = want - available;
    const owing = this.#owing;
    const enough = (want <= 0 && !owing) || deficit <= SLACK;
    const granted = enough || owing;
    if (granted) available -= want;
    if (seen !== UNUSED || (granted && want > 0)) {
      doubles[d] = available;
      doubles[d + 1] = mark;
      words[w] = seenNow;
    }
    answer.outcome = granted ? "granted" : "refused";
    answer.remaining = Math.max(0, available);
    answer.current = capacity - answer.remaining;
    answer.waitMs = enough ? 0 : waitFor(deficit, mark, now, params);
    answer.id = "";
    answer.full = false;
    return answer;
  }

  /** Takes from the bucket of a key that has no row, and adds one if something was taken. */
  #takeNew(table: KeyTable, want: number, params: BucketParams, now: number): ReusedAnswer {
    const { doubles, words } = this.#tables.scratch;
    words[0] = UNUSED;
    const answer = this.#take(doubles, 0, words, 0, want, params, now);
    if (words[0] === UNUSED) return answer;
    if (!table.insert(this.#hash.lo, this.#hash.hi, now)) {
      this.#observer.anomaly("keys_overflow");
      const shared = this.#takeShared(want, params, now);
      shared.id = OVERFLOW;
      shared.full = true;
      return shared;
    }
    const place = this.#column?.place ?? 0;
    const d = table.d + 2 * place;
    table.doubles[d] = doubles[0] ?? 0;
    table.doubles[d + 1] = doubles[1] ?? 0;
    table.words[table.w + place] = words[0] ?? UNUSED;
    return answer;
  }

  #takeShared(want: number, params: BucketParams, now: number): ReusedAnswer {
    const { doubles, words } = this.#sharedRow();
    return this.#take(doubles, 0, words, 0, want, params, now);
  }

  #sharedRow(): BucketRow {
    this.#shared ??= new BucketRow();
    return this.#shared;
  }

  #add(
    doubles: Float64Array,
    d: number,
    words: Uint32Array,
    w: number,
    amount: number,
    params: BucketParams,
    now: number,
  ): void {
    // Taking nothing fills the bucket up to now.
    this.#take(doubles, d, words, w, 0, params, now);
    if (words[w] !== UNUSED) doubles[d] = Math.min(params.capacity, (doubles[d] ?? 0) + amount);
  }

  /** A time in the unit of "last seen", certainly not `UNUSED`. */
  #seenAt(now: number): number {
    return Math.floor((now - this.#created) / SEEN_MS) + 1;
  }
}
