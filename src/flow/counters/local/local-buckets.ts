// Token buckets counted in process. A key costs as little memory as possible, and is stored only while one of its
// buckets is not full. A full table forgets the key that has used least, of which `forgotten-buckets.ts` remembers enough
// that it never gets more than its limit.

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
  placeIn,
  UNUSED,
  USED,
} from "./bucket-row.ts";
import { type BucketLevel, ForgottenBuckets } from "./forgotten-buckets.ts";
import type { KeyHash } from "./keys/key-hash.ts";
import type { Column, EvictionPolicy, KeyHashWords } from "./keys/key-table.ts";
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
  #owing = false;
  #params: BucketParams | undefined;
  /** The bucket without a key. */
  #shared: BucketRow | undefined;
  /** Undefined until the table has forgotten a key that was not full. */
  #forgotten: ForgottenBuckets | undefined;

  /** Limiters of one group are always asked together and about the same key. */
  constructor(context: LocalBucketsContext, group: string) {
    this.#clock = context.clock;
    this.#observer = context.observer;
    this.#hash = context.keyHash;
    this.#maxKeys = context.maxKeys;
    this.#tables = context.bucketTables;
    this.#group = group;
  }

  /** Number of keys for which this limiter or another of its group has a bucket. */
  get keys(): number {
    return this.#column?.table.count ?? 0;
  }

  /** Forgets all buckets. Checks that began earlier may still ask, and count in separate buckets. */
  close(): void {
    if (this.#column !== undefined) this.#tables.leave(this.#group, this.#column);
    this.#column = undefined;
    this.#forgotten = undefined;
    this.#tables = new BucketTables(this.#maxKeys);
  }

  /** Makes new numbers count from now on, also in buckets that have not been used for a while. */
  adopt(params: BucketParams): void {
    this.#params = params;
    const now = this.#clock.now();
    this.#refill.change(now, params.amount, params.intervalMs);
    this.#forgotten?.adopt(params, now);
  }

  peek(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    if (value !== undefined) this.#hash.of(value);
    return this.peekHashed(value !== undefined, want, params, now);
  }

  /** As `peek`, for the key that the key hash was set to, or for the bucket without a key. */
  peekHashed(keyed: boolean, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#use(params);
    const { scratch } = this.#tables;
    if (!keyed) scratch.copy(this.#sharedRow());
    else {
      const { table, place } = this.#columnHashed();
      if (table.find(this.#hash.lo, this.#hash.hi)) scratch.copy(table, place);
      else scratch.words[0] = UNUSED;
      if (scratch.words[0] === UNUSED) this.#recall(scratch, this.#hash, params, now);
    }
    return this.#take(scratch.doubles, 0, scratch.words, 0, want, params, now);
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
   * As `takeHashed`, but may leave a debt, which later fills pay first. The wait is the time until the debt is paid.
   */
  oweHashed(keyed: boolean, want: number, params: BucketParams, now: number): EngineAnswer {
    this.#owing = true;
    const answer = this.takeHashed(keyed, want, params, now);
    this.#owing = false;
    return answer;
  }

  giveBack(value: string | undefined, amount: number, _id: string, params: BucketParams): boolean {
    if (value !== undefined) this.#hash.of(value);
    return this.giveBackHashed(value !== undefined, amount, params);
  }

  /** As `giveBack`, for the key that the key hash was set to, or for the bucket without a key. */
  giveBackHashed(keyed: boolean, amount: number, params: BucketParams): boolean {
    this.#use(params);
    const now = this.#clock.now();
    if (!keyed) {
      const { doubles, words } = this.#sharedRow();
      this.#add(doubles, 0, words, 0, amount, params, now);
      return true;
    }
    const row = this.#usedRow(this.#hash, params, now);
    // A key that is neither stored nor remembered was full: there is nothing to add to.
    if (row === undefined) return false;
    this.#add(row.doubles, row.d, row.words, row.w, amount, params, now);
    return true;
  }

  charge(value: string | undefined, amount: number, _id: string, params: BucketParams): void {
    if (value !== undefined) this.#hash.of(value);
    this.oweHashed(value !== undefined, amount, params, this.#clock.now());
  }

  /** The time until the bucket is full, as a part of the time in which an empty one fills. */
  loss(now: number, doubles: Float64Array, d: number, words: Uint32Array, w: number): number {
    if (words[w] === UNUSED) return 0;
    const params = this.#params;
    if (params === undefined) return 1;
    const mark = doubles[d + 1] ?? 0;
    const next = markAt(mark, now, params);
    const { capacity } = params;
    const missing = capacity - filled(doubles[d] ?? 0, mark, next, params, this.#refill);
    if (missing <= 0) return 0;
    return (missing + Math.max(0, this.#refill.between(now, next))) / Math.max(capacity, SLACK);
  }

  forget(
    { lo, hi }: KeyHashWords,
    now: number,
    doubles: Float64Array,
    d: number,
    words: Uint32Array,
    w: number,
  ): void {
    if (this.loss(now, doubles, d, words, w) === 0) return;
    const params = this.#params;
    if (params === undefined) return;
    fill(doubles, d, now, params, this.#refill);
    this.#remember(lo, hi, { available: doubles[d] ?? 0, mark: doubles[d + 1] ?? 0 }, params, now);
  }

  /** Visits the hash of every key that has a bucket, 0 and 0 for the one without a key. Nothing may change meanwhile. */
  each(visit: (lo: number, hi: number) => void): void {
    if (this.#shared !== undefined) visit(0, 0);
    this.#column?.table.each(visit);
  }

  /** A bucket filled up to now. Undefined when it is not in use. */
  read(lo: number, hi: number): BucketState | undefined {
    const now = this.#clock.now();
    const row = this.#rowOf(lo, hi) ?? this.#scratchOf(lo, hi, now);
    if (row === undefined || !this.#refresh(row, now)) return undefined;
    return { available: row.doubles[row.d] ?? 0, mark: row.doubles[row.d + 1] ?? 0 };
  }

  /**
   * Stores a copy of a bucket that another agent counts, or takes over a bucket that it counted until now. When taking
   * over, tokens that were taken here are subtracted.
   */
  put(lo: number, hi: number, bucket: BucketState, how: "copy" | "take over"): void {
    const now = this.#clock.now();
    const row = lo === 0 ? this.#sharedRow() : (this.#rowOf(lo, hi) ?? this.#newRow(lo, hi, now));
    if (row === undefined) {
      if (this.#params !== undefined) this.#remember(lo, hi, bucket, this.#params, now);
      return;
    }
    const { doubles, d, words, w } = row;
    const { available, mark } = bucket;
    if (words[w] === UNUSED && lo !== 0 && this.#params !== undefined)
      this.#recall(row, { lo, hi }, this.#params, now);
    const counted = words[w] !== COPY && this.#refresh(row, now);
    if (how === "take over" && counted) {
      const capacity = this.#params?.capacity ?? 0;
      doubles[d] = Math.max(-capacity, (doubles[d] ?? 0) + available - capacity);
      doubles[d + 1] = Math.max(mark, doubles[d + 1] ?? 0);
    } else {
      doubles[d] = available;
      doubles[d + 1] = mark;
    }
    words[w] = how === "copy" ? COPY : USED;
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

  /** The remembered state of a key without a row; undefined if nothing is remembered. */
  #scratchOf(lo: number, hi: number, now: number): BucketPlace | undefined {
    if (lo === 0 || this.#forgotten === undefined || this.#params === undefined) return undefined;
    const { scratch } = this.#tables;
    scratch.words[0] = UNUSED;
    this.#recall(scratch, { lo, hi }, this.#params, now);
    return scratch;
  }

  /** The bucket of a key, restored if it was forgotten. Undefined when it is full, or the table has no room. */
  #usedRow({ lo, hi }: KeyHashWords, params: BucketParams, now: number): BucketPlace | undefined {
    const found = this.#rowOf(lo, hi);
    if (found !== undefined) {
      if (found.words[found.w] === UNUSED) this.#recall(found, { lo, hi }, params, now);
      return found.words[found.w] === UNUSED ? undefined : found;
    }
    const kept = this.#scratchOf(lo, hi, now);
    if (kept === undefined || kept.words[kept.w] === UNUSED) return undefined;
    const level = { available: kept.doubles[kept.d] ?? 0, mark: kept.doubles[kept.d + 1] ?? 0 };
    const row = this.#newRow(lo, hi, now);
    return row && written(row, level);
  }

  /** Adds a row for a key. Undefined when all examined keys must stay. */
  #newRow(lo: number, hi: number, now: number): BucketPlace | undefined {
    const { table, place } = this.#columnHashed();
    return table.insert(lo, hi, now) ? placeIn(table, place) : undefined;
  }

  #remember(lo: number, hi: number, level: BucketLevel, params: BucketParams, now: number): void {
    this.#observer.anomaly("keys_overflow");
    if (this.#forgotten === undefined) {
      this.#forgotten = new ForgottenBuckets(this.#refill, this.#maxKeys);
      this.#forgotten.adopt(params, now);
    }
    this.#forgotten.add(lo, hi, level, params, now);
  }

  /** Restores the remembered state of a key into its unused bucket. */
  #recall(
    { doubles, d, words, w }: BucketPlace,
    { lo, hi }: KeyHashWords,
    params: BucketParams,
    now: number,
  ): void {
    if (!this.#forgotten?.find(lo, hi, params, now)) return;
    const { available, mark } = this.#forgotten.found;
    doubles[d] = available;
    doubles[d + 1] = mark;
    words[w] = USED;
  }

  /** Fills a bucket up to now; false when it is not in use. */
  #refresh({ doubles, d, words, w }: BucketPlace, now: number): boolean {
    const params = this.#params;
    if (params === undefined || words[w] === UNUSED) return false;
    fill(doubles, d, now, params, this.#refill);
    return true;
  }

  #use(params: BucketParams): void {
    if (params !== this.#params) this.adopt(params);
  }

  /** Takes from the bucket of the key that was hashed last. */
  #takeHashed(want: number, params: BucketParams, now: number): ReusedAnswer {
    const { table, place } = this.#columnHashed();
    if (!table.find(this.#hash.lo, this.#hash.hi)) return this.#takeNew(want, params, now);
    const { doubles, words } = table;
    const d = table.d + 2 * place;
    const w = table.w + place;
    if (this.#forgotten !== undefined && words[w] === UNUSED)
      this.#recall({ doubles, d, words, w }, this.#hash, params, now);
    return this.#take(doubles, d, words, w, want, params, now);
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
    const used = words[w] !== UNUSED;
    let available = capacity;
    let mark = now;
    if (used) {
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
    if (used || (granted && want > 0)) {
      doubles[d] = available;
      doubles[d + 1] = mark;
      words[w] = USED;
    }
    answer.outcome = granted ? "granted" : "refused";
    answer.remaining = Math.max(0, available);
    answer.current = capacity - answer.remaining;
    answer.waitMs = enough ? 0 : waitFor(deficit, mark, now, params);
    answer.id = "";
    return answer;
  }

  /** Takes from the bucket of a key that has no row, and adds one if something was taken. */
  #takeNew(want: number, params: BucketParams, now: number): ReusedAnswer {
    const { scratch } = this.#tables;
    const { doubles, words } = scratch;
    words[0] = UNUSED;
    if (this.#forgotten !== undefined) this.#recall(scratch, this.#hash, params, now);
    const answer = this.#take(doubles, 0, words, 0, want, params, now);
    if (answer.outcome === "refused" || want <= 0) return answer;
    const { lo, hi } = this.#hash;
    const row = this.#newRow(lo, hi, now);
    const available = doubles[0] ?? 0;
    const mark = doubles[1] ?? 0;
    if (row === undefined) this.#remember(lo, hi, { available, mark }, params, now);
    else written(row, { available, mark });
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
}

/** Writes a bucket that is counted here. */
function written(row: BucketPlace, { available, mark }: BucketLevel): BucketPlace {
  row.doubles[row.d] = available;
  row.doubles[row.d + 1] = mark;
  row.words[row.w] = USED;
  return row;
}
