// Keyed storage: numbers by the hash of a key, in segments that split when they are full (extendible
// hashing), so that no insert moves more than one segment. Bounded: a full table forgets only keys whose
// loss changes no answer, and looks at a few of them per insert.

import { KeySegment, MAX_ROWS, type RowLayout, rowsFor } from "./key-segment.ts";

/** Decides which keys may be forgotten. Rows are given by their arrays and offsets. */
export interface EvictionPolicy {
  /** Whether a fresh key would now get the same answers as this one. Changes nothing. */
  spent(doubles: Float64Array, d: number, words: Uint32Array, w: number): boolean;
  /** Called before the row is forgotten. */
  forget(doubles: Float64Array, d: number, words: Uint32Array, w: number): void;
}

/** Rows examined when a full table needs room: bounds the cost of one insert under attack. */
const LOOKS = 16;

const NO_DOUBLES = new Float64Array(0);
const NO_WORDS = new Uint32Array(0);

export class KeyTable {
  count = 0;
  /** Row of the last successful `find` or `insert`, until the next insert or removal. */
  doubles: Float64Array = NO_DOUBLES;
  words: Uint32Array = NO_WORDS;
  d = 0;
  w = 0;
  readonly #layout: RowLayout;
  readonly #maxKeys: number;
  readonly #eviction: EvictionPolicy;
  /** By the top `#depth` bits of the high word. Empty until there is a key. */
  #directory: KeySegment[] = [];
  #depth = 0;
  readonly #segments: KeySegment[] = [];
  /** Where the search for spent keys goes on. */
  #nextSegment = 0;
  #nextRow = 0;

  constructor(layout: RowLayout, maxKeys: number, eviction: EvictionPolicy) {
    this.#layout = layout;
    this.#maxKeys = maxKeys;
    this.#eviction = eviction;
  }

  find(lo: number, hi: number): boolean {
    const segment = this.#directory[this.#index(hi)];
    if (segment === undefined) return false;
    const row = segment.seek(lo, hi);
    if (!segment.holds(row)) return false;
    this.#point(segment, row);
    return true;
  }

  /** Adds an absent key with all its numbers 0. False when the table is full and no key may be forgotten. */
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

  /** Removes a key if it is there, without asking the eviction policy. */
  remove(lo: number, hi: number): void {
    const segment = this.#directory[this.#index(hi)];
    const row = segment?.seek(lo, hi) ?? 0;
    if (segment === undefined || !segment.holds(row)) return;
    segment.remove(row);
    this.count--;
  }

  /** Whether an insert would succeed now. Changes nothing. */
  hasRoom(): boolean {
    return this.count < this.#maxKeys || this.#spentAhead(false);
  }

  /** Forgets one spent key among the next few; false when none of them is spent. */
  evict(): boolean {
    return this.#spentAhead(true);
  }

  /** Looks for a spent row among the next few; with `take` it is forgotten and the position moves on. */
  #spentAhead(take: boolean): boolean {
    let index = this.#nextSegment;
    let row = this.#nextRow;
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
        this.#nextSegment = index;
        this.#nextRow = row;
        return true;
      }
      row++;
    }
    if (take) {
      this.#nextSegment = index;
      this.#nextRow = row;
    }
    return false;
  }

  /** Replaces a full segment by one without its spent keys, resized for the rest, or by two. */
  #rebuild(full: KeySegment, hi: number): void {
    const { wordStride } = this.#layout;
    let kept = 0;
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      if (this.#spent(full, row)) {
        this.#forget(full, row);
        full.words[row * wordStride] = 0; // the segment is discarded: no gap to close
        this.count--;
      } else kept++;
    }
    const rows = rowsFor(kept);
    if (rows > MAX_ROWS) {
      this.#split(full, hi);
      return;
    }
    const renewed = new KeySegment(this.#layout, rows, full.depth);
    for (let row = 0; row < full.rows; row++) if (full.holds(row)) renewed.adopt(full, row);
    this.#replace(full, renewed, renewed, hi);
  }

  #split(full: KeySegment, hi: number): void {
    const { wordStride } = this.#layout;
    const depth = full.depth + 1;
    if (depth > this.#depth) this.#deepen();
    const bit = 2 ** (32 - depth);
    let ones = 0;
    let kept = 0;
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      kept++;
      if (((full.words[row * wordStride + 1] ?? 0) & bit) !== 0) ones++;
    }
    const zero = new KeySegment(this.#layout, rowsFor(kept - ones), depth);
    const one = new KeySegment(this.#layout, rowsFor(ones), depth);
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      const side = ((full.words[row * wordStride + 1] ?? 0) & bit) !== 0 ? one : zero;
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
  #replace(old: KeySegment, zero: KeySegment, one: KeySegment, hi: number): void {
    zero.place = old.place;
    this.#segments[old.place] = zero;
    if (one !== zero) one.place = this.#segments.push(one) - 1;
    const width = 2 ** (this.#depth - old.depth);
    const first = this.#index(hi) & -width;
    for (let index = 0; index < width; index++) {
      this.#directory[first + index] = index >= width / 2 ? one : zero;
    }
  }

  #first(): KeySegment {
    const segment = new KeySegment(this.#layout, rowsFor(0), 0);
    this.#segments.push(segment);
    this.#directory = [segment];
    return segment;
  }

  #index(hi: number): number {
    return this.#depth === 0 ? 0 : hi >>> (32 - this.#depth);
  }

  #point(segment: KeySegment, row: number): void {
    this.doubles = segment.doubles;
    this.words = segment.words;
    this.d = row * this.#layout.doubleStride + this.#layout.doubleOffset;
    this.w = row * this.#layout.wordStride;
  }

  #spent(segment: KeySegment, row: number): boolean {
    const { doubleStride, doubleOffset, wordStride } = this.#layout;
    const d = row * doubleStride + doubleOffset;
    return this.#eviction.spent(segment.doubles, d, segment.words, row * wordStride);
  }

  #forget(segment: KeySegment, row: number): void {
    const { doubleStride, doubleOffset, wordStride } = this.#layout;
    const d = row * doubleStride + doubleOffset;
    this.#eviction.forget(segment.doubles, d, segment.words, row * wordStride);
  }
}
