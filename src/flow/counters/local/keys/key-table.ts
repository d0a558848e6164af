// Keyed storage: numbers by the hash of a key, in segments that split when they are full (extendible
// hashing), so that no insert moves more than one segment. Several limiters can share a table: each has a column,
// and a key that they all count is looked up once. Bounded: a full table examines a few keys per insert, and evicts the
// one whose loss matters least.

import { type ColumnShape, KeySegment, RowLayout, rowsFor } from "./key-segment.ts";

/** The owner of a column decides which keys may be evicted. The numbers of a key are given by arrays and offsets. */
export interface EvictionPolicy {
  /**
   * How much it matters at the time `now` to forget a key: 0 if a fresh key would get the same answers, and Infinity if the
   * key must stay. Changes nothing. Numbers that were never written are 0.
   */
  loss(now: number, doubles: Float64Array, d: number, words: Uint32Array, w: number): number;
  /** Called before the row of a key is forgotten. */
  forget(
    key: KeyHashWords,
    now: number,
    doubles: Float64Array,
    d: number,
    words: Uint32Array,
    w: number,
  ): void;
}

/** The hash of a key. */
export interface KeyHashWords {
  readonly lo: number;
  readonly hi: number;
}

/** One limiter's numbers in all rows of a table. */
export interface Column {
  readonly table: KeyTable;
  /** Index among the columns of a row. It changes when others leave. */
  readonly place: number;
}

class OwnedColumn implements Column {
  readonly table: KeyTable;
  /** Undefined once it left. Segments that have not been used since still have its numbers. */
  owner: EvictionPolicy | undefined;
  place = 0;

  constructor(table: KeyTable, owner: EvictionPolicy) {
    this.table = table;
    this.owner = owner;
  }
}

type Layout = RowLayout<OwnedColumn>;
type Segment = KeySegment<OwnedColumn>;

/** Keys, and rows, that are examined when a full table needs room: bounds the cost of one insert under attack. */
const MAX_KEYS_EXAMINED = 16;
const MAX_ROWS_EXAMINED = 256;

const NO_DOUBLES = new Float64Array(0);
const NO_WORDS = new Uint32Array(0);

/** A search for a key to forget: where it goes on, and the key that matters least so far. */
class Search {
  segment = 0;
  row = 0;
  victim: Segment | undefined;
  victimRow = 0;
}

export class KeyTable {
  count = 0;
  /** The row of the last successful `find` or `insert`: its arrays, and the offsets of its first column. */
  doubles: Float64Array = NO_DOUBLES;
  words: Uint32Array = NO_WORDS;
  d = 0;
  w = 0;
  /** The key of that row; `#lo` is 0 when the row may have moved since. */
  #lo = 0;
  #hi = 0;
  /** A segment adopts a new layout when a key in it is looked up. */
  #layout: Layout;
  readonly #maxKeys: number;
  /** By the top `#depth` bits of the high word. Empty until there is a key. */
  #directory: Segment[] = [];
  #depth = 0;
  readonly #segments: Segment[] = [];
  /** Where the search for a key to forget goes on. */
  #nextSegment = 0;
  #nextRow = 0;
  readonly #search = new Search();

  constructor(shape: ColumnShape, maxKeys: number) {
    this.#layout = new RowLayout(shape, []);
    this.#maxKeys = maxKeys;
  }

  /** Number of columns. */
  get width(): number {
    return this.#layout.columns.length;
  }

  /** Adds a column, whose numbers are 0 in all rows. */
  join(owner: EvictionPolicy): Column {
    const column = new OwnedColumn(this, owner);
    this.#arrange([...this.#layout.columns, column]);
    return column;
  }

  /** Removes a column. Rows that only it used are spent. */
  leave(left: Column): void {
    for (const column of this.#layout.columns) if (column === left) column.owner = undefined;
    this.#arrange(this.#layout.columns.filter(({ owner }) => owner !== undefined));
  }

  #arrange(columns: readonly OwnedColumn[]): void {
    for (const [place, column] of columns.entries()) column.place = place;
    this.#layout = new RowLayout(this.#layout.shape, columns);
    this.#lo = 0;
  }

  /** Costs nothing for the key of the last `find` or `insert`, as when several limiters of a check share the table. */
  find(lo: number, hi: number): boolean {
    if (lo === this.#lo && hi === this.#hi) return true;
    const segment = this.#segmentOf(hi);
    if (segment === undefined) return false;
    const row = segment.seek(lo, hi);
    if (!segment.holds(row)) return false;
    this.#point(segment, row, lo, hi);
    return true;
  }

  /** Adds an absent key with all its numbers 0. False when the table is full and no examined key may be forgotten. */
  insert(lo: number, hi: number, now: number): boolean {
    if (this.count >= this.#maxKeys && !this.evict(now)) return false;
    let segment = this.#segmentOf(hi) ?? this.#first();
    while (segment.full) {
      this.#rebuild(segment, hi, now);
      segment = this.#segmentOf(hi) ?? segment;
    }
    const row = segment.seek(lo, hi);
    segment.claim(row, lo, hi);
    this.count++;
    this.#point(segment, row, lo, hi);
    return true;
  }

  /** Removes a key if it is there, without asking the owners of columns. */
  remove(lo: number, hi: number): void {
    const segment = this.#segmentOf(hi);
    const row = segment?.seek(lo, hi) ?? 0;
    if (segment === undefined || !segment.holds(row)) return;
    this.#remove(segment, row);
  }

  /** Visits every key, whose row is then that of the last `find`. The table must not change meanwhile. */
  each(visit: (lo: number, hi: number) => void): void {
    for (const { layout, words, rows } of this.#segments) {
      for (let row = 0; row < rows; row++) {
        const at = row * layout.wordStride;
        const lo = words[at] ?? 0;
        const hi = words[at + 1] ?? 0;
        if (lo !== 0 && this.find(lo, hi)) visit(lo, hi);
      }
    }
  }

  /** True if an insert would succeed now. Changes nothing. */
  hasRoom(now: number): boolean {
    return this.count < this.#maxKeys || this.#leastLoss(now);
  }

  /** Forgets the key that matters least among the next few; false when all of them must stay. */
  evict(now: number): boolean {
    const found = this.#leastLoss(now);
    const { victim, victimRow, segment, row } = this.#search;
    this.#nextSegment = segment;
    this.#nextRow = row;
    if (!found || victim === undefined) return false;
    forget(victim, victimRow, now);
    this.#remove(victim, victimRow);
    return true;
  }

  /** Finds the key that matters least among the next few. False when all of them must stay. */
  #leastLoss(now: number): boolean {
    const search = this.#search;
    search.segment = this.#nextSegment;
    search.row = this.#nextRow;
    let least = Number.POSITIVE_INFINITY;
    let keys = 0;
    for (let rows = 0; rows < MAX_ROWS_EXAMINED && keys < MAX_KEYS_EXAMINED; rows++) {
      const segment = this.#segments[search.segment];
      if (segment === undefined || search.row >= segment.rows) {
        search.segment = search.segment + 1 < this.#segments.length ? search.segment + 1 : 0;
        search.row = 0;
        continue;
      }
      if (segment.holds(search.row)) {
        keys++;
        const loss = lossOf(segment, search.row, now);
        if (loss < least) {
          least = loss;
          search.victim = segment;
          search.victimRow = search.row;
          // Its removal moves another key to this row, with which the next search begins.
          if (loss === 0) return true;
        }
      }
      search.row++;
    }
    return least < Number.POSITIVE_INFINITY;
  }

  #remove(segment: Segment, row: number): void {
    segment.remove(row);
    this.count--;
    this.#lo = 0;
  }

  /** The segment of a key, in the current layout. */
  #segmentOf(hi: number): Segment | undefined {
    const segment = this.#directory[this.#index(hi)];
    if (segment === undefined || segment.layout === this.#layout) return segment;
    const renewed = new KeySegment(this.#layout, segment.rows, segment.depth);
    moveRows(segment, renewed, renewed, 0);
    this.#replace(segment, renewed, renewed, hi);
    return renewed;
  }

  /** Replaces a full segment by one without its spent keys, resized for the rest, or by two. */
  #rebuild(full: Segment, hi: number, now: number): void {
    const { wordStride, maxRows } = full.layout;
    let kept = 0;
    for (let row = 0; row < full.rows; row++) {
      if (!full.holds(row)) continue;
      if (lossOf(full, row, now) === 0) {
        forget(full, row, now);
        full.words[row * wordStride] = 0; // the segment is discarded: no gap to close
        this.count--;
      } else kept++;
    }
    const rows = rowsFor(kept);
    if (rows > maxRows) {
      this.#split(full, kept, hi);
      return;
    }
    const renewed = new KeySegment(full.layout, rows, full.depth);
    moveRows(full, renewed, renewed, 0);
    this.#replace(full, renewed, renewed, hi);
  }

  #split(full: Segment, kept: number, hi: number): void {
    const { layout } = full;
    const depth = full.depth + 1;
    if (depth > this.#depth) this.#deepen();
    const bit = 2 ** (32 - depth);
    let ones = 0;
    for (let row = 0; row < full.rows; row++) {
      if (full.holds(row) && ((full.words[row * layout.wordStride + 1] ?? 0) & bit) !== 0) ones++;
    }
    const zero = new KeySegment(layout, rowsFor(kept - ones), depth);
    const one = new KeySegment(layout, rowsFor(ones), depth);
    moveRows(full, zero, one, bit);
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
    this.#lo = 0;
  }

  #first(): Segment {
    const segment = new KeySegment(this.#layout, rowsFor(0), 0);
    this.#segments.push(segment);
    this.#directory = [segment];
    return segment;
  }

  #index(hi: number): number {
    return this.#depth === 0 ? 0 : hi >>> (32 - this.#depth);
  }

  #point(segment: Segment, row: number, lo: number, hi: number): void {
    const { doubleStride, doubleOffset, wordStride, wordOffset } = this.#layout;
    this.doubles = segment.doubles;
    this.words = segment.words;
    this.d = row * doubleStride + doubleOffset;
    this.w = row * wordStride + wordOffset;
    this.#lo = lo;
    this.#hi = hi;
  }
}

/** Copies all rows of a segment to one of two others, by one bit of their high word. */
function moveRows(from: Segment, zero: Segment, one: Segment, bit: number): void {
  const places = zero.layout.placesIn(from.layout);
  const { wordStride } = from.layout;
  for (let row = 0; row < from.rows; row++) {
    if (!from.holds(row)) continue;
    const side = ((from.words[row * wordStride + 1] ?? 0) & bit) !== 0 ? one : zero;
    side.adopt(from, row, places);
  }
}

/** The greatest loss among the columns. The segment may have an old layout, with columns that have left. */
function lossOf(segment: Segment, row: number, now: number): number {
  const { columns } = segment.layout;
  const { doubles, words } = segment;
  let most = 0;
  for (let at = 0; at < columns.length; at++) {
    const owner = columns[at]?.owner;
    if (owner === undefined) continue;
    const d = segment.doubleAt(row, at);
    most = Math.max(most, owner.loss(now, doubles, d, words, segment.wordAt(row, at)));
  }
  return most;
}

function forget(segment: Segment, row: number, now: number): void {
  const { doubles, words, layout } = segment;
  const at = row * layout.wordStride;
  const key = { lo: words[at] ?? 0, hi: words[at + 1] ?? 0 };
  for (const [place, { owner }] of layout.columns.entries()) {
    const d = segment.doubleAt(row, place);
    owner?.forget(key, now, doubles, d, words, segment.wordAt(row, place));
  }
}
