// Keyed storage: numbers by the hash of a key, in segments that split when they are full (extendible
// hashing), so that no insert moves more than one segment. Bounded: a full table forgets only keys
// whose loss changes nothing, a few looks at a time.

import { MAX_ROWS, type RowShape, rowsFor, Segment } from "./segment.ts";

/** Says what may be forgotten. Rows are given by their arrays and offsets. */
export interface Keeper {
  /** Whether a fresh key would be judged as this one is now. Changes nothing. */
  spent(doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean;
  /** The row is about to be forgotten. */
  forget(doubles: Float64Array, d: number, words: Uint32Array, w: number): void;
}

/** Rows looked at when a full table wants room: bounds the cost of one insert under attack. */
const LOOKS = 16;

const NO_DOUBLES = new Float64Array(0);
const NO_WORDS = new Uint32Array(0);

export class KeyTable {
  count = 0;
  /** Row of the last successful `find` or `insert`; any insert or removal makes it stale. */
  doubles: Float64Array = NO_DOUBLES;
  words: Uint32Array = NO_WORDS;
  d = 0;
  w = 0;
  readonly #shape: RowShape;
  readonly #maxKeys: number;
  readonly #keeper: Keeper;
  /** By the top `#depth` bits of the high word. Empty until there is a key. */
  #directory: Segment[] = [];
  #depth = 0;
  readonly #segments: Segment[] = [];
  #handSegment = 0;
  #handRow = 0;

  constructor(shape: RowShape, maxKeys: number, keeper: Keeper) {
    this.#shape = shape;
    this.#maxKeys = maxKeys;
    this.#keeper = keeper;
  }

  find(lo: number, hi: number): boolean {
    const segment = this.#directory[this.#index(hi)];
    if (segment === undefined) return false;
    const row = segment.seek(lo, hi);
    if (!segment.holds(row)) return false;
    this.#point(segment, row);
    return true;
  }

  /** Adds an absent key with all its numbers 0. False when the table is full and nothing can go. */
  insert(lo: number, hi: number): boolean {
    if (this.count >= this.#maxKeys && !this.evict()) return false;
    let segment = this.#directory[this.#index(hi)] ?? this.#first();
    while (segment.full) {
      this.#rebuild(segment, hi);
      segment = this.#directory[this.#index(hi)] ?? segment;
    }
    const row = segment.seek(lo, hi);
    segment.claim(row, lo, hi);
    this.count++;
    this.#point(segment, row);
    return true;
  }

  /** Takes out a key that `find` finds; the keeper is not asked. */
  remove(lo: number, hi: number): void {
    const segment = this.#directory[this.#index(hi)];
    const row = segment?.seek(lo, hi) ?? 0;
    if (segment === undefined || !segment.holds(row)) return;
    segment.remove(row);
    this.count--;
  }

  /** Whether an insert would find room now. Changes nothing. */
  hasRoom(): boolean {
    return this.count < this.#maxKeys || this.#spentAhead(false);
  }

  /** Forgets one spent key among the next few; false when they all still matter. */
  evict(): boolean {
    return this.#spentAhead(true);
  }

  /** Looks at the next few rows, for one that is spent; `take` forgets it and moves the hand on. */
  #spentAhead(take: boolean): boolean {
    let index = this.#handSegment;
    let row = this.#handRow;
    for (let look = 0; look < LOOKS; look++) {
      const segment = this.#segments[index];
      if (segment === undefined || row >= segment.rows) {
        index = index + 1 < this.#segments.length ? index + 1 : 0;
        row = 0;
        continue;
      }
      if (segment.holds(row) && this.#spent(segment, row)) {
        if (!take) return true;
        this.#forget(segment, row);
        segment.remove(row);
        this.count--;
        this.#handSegment = index;
        this.#handRow = row;
        return true;
      }
      row++;
    }
    if (take) {
      this.#handSegment = index;
      this.#handRow = row;
    }
    return false;
  }

  /** A full segment without its spent keys: as large as they need, or split in two. */
  #rebuild(full: Segment, hi: number): void {
    const { words } = this.#shape;
    let kept = 0;
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      if (this.#spent(full, row)) {
        this.#forget(full, row);
        full.words[row * words] = 0; // the segment is left behind: no gap to close
        this.count--;
      } else kept++;
    }
    const rows = rowsFor(kept);
    if (rows > MAX_ROWS) {
      this.#split(full, hi);
      return;
    }
    const renewed = new Segment(this.#shape, rows, full.depth);
    for (let row = 0; row < full.rows; row++) if (full.holds(row)) renewed.adopt(full, row);
    this.#replace(full, renewed, renewed, hi);
  }

  #split(full: Segment, hi: number): void {
    const { words } = this.#shape;
    const depth = full.depth + 1;
    if (depth > this.#depth) this.#deepen();
    const bit = 2 ** (32 - depth);
    let ones = 0;
    let kept = 0;
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      kept++;
      if (((full.words[row * words + 1] ?? 0) & bit) !== 0) ones++;
    }
    const zero = new Segment(this.#shape, rowsFor(kept - ones), depth);
    const one = new Segment(this.#shape, rowsFor(ones), depth);
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      const side = ((full.words[row * words + 1] ?? 0) & bit) !== 0 ? one : zero;
      side.adopt(full, row);
    }
    this.#replace(full, zero, one, hi);
  }

  /** Doubles the directory. */
  #deepen(): void {
    const old = this.#directory;
    this.#directory = [];
    for (const segment of old) this.#directory.push(segment, segment);
    this.#depth++;
  }

  /** Puts one or two segments where `old` was; `hi` is the high word of any key that belongs there. */
  #replace(old: Segment, zero: Segment, one: Segment, hi: number): void {
    zero.place = old.place;
    this.#segments[old.place] = zero;
    if (one !== zero) one.place = this.#segments.push(one) - 1;
    const width = 2 ** (this.#depth - old.depth);
    const first = this.#index(hi) & -width;
    for (let index = 0; index < width; index++) {
      this.#directory[first + index] = index >= width / 2 ? one : zero;
    }
  }

  #first(): Segment {
    const segment = new Segment(this.#shape, rowsFor(0), 0);
    this.#segments.push(segment);
    this.#directory = [segment];
    return segment;
  }

  #index(hi: number): number {
    return this.#depth === 0 ? 0 : hi >>> (32 - this.#depth);
  }

  #point(segment: Segment, row: number): void {
    this.doubles = segment.doubles;
    this.words = segment.words;
    this.d = row * this.#shape.doubles;
    this.w = row * this.#shape.words;
  }

  #spent(segment: Segment, row: number): boolean {
    const { doubles, words } = this.#shape;
    return this.#keeper.spent(segment.doubles, row * doubles, segment.words, row * words);
  }

  #forget(segment: Segment, row: number): void {
    const { doubles, words } = this.#shape;
    this.#keeper.forget(segment.doubles, row * doubles, segment.words, row * words);
  }
}
