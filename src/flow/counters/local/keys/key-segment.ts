// One open-addressed piece of a key table: rows of words and doubles in one buffer, found by linear probing.
// The first two words of a row are the key's hash; a first word of 0 marks an empty row.

/** Words of a row that hold its key's hash. */
const HASH_WORDS = 2;
/** Rows and bytes of the largest segment. Moving one takes 30 microseconds, or 100 with ten columns: the longest insert. */
export const MAX_ROWS = 1024;
const MAX_BYTES = 256 * 1024;
const MIN_ROWS = 8;
/** Filled part at which a segment is rebuilt. */
const LOAD = 0.8;
/** A rebuild leaves room for this many times the keys, so that its cost is spread over many inserts. */
const ROOM = 1.25;

/** Number of words and of doubles that a column has in each row. */
export interface ColumnShape {
  readonly words: number;
  readonly doubles: number;
}

/**
 * The place of a row's numbers. All numbers of one row lie beside each other, so that a lookup touches few cache
 * lines: the hash, the words of each column, padded to a whole double where there are doubles, the doubles of each.
 */
export class RowLayout<Column> {
  readonly shape: ColumnShape;
  readonly columns: readonly Column[];
  /** Words from one row to the next. */
  readonly wordStride: number;
  /** Doubles from one row to the next; 0 where rows have none. */
  readonly doubleStride: number;
  /** Words in front of the first column's, and doubles in front of the first column's. */
  readonly wordOffset = HASH_WORDS;
  readonly doubleOffset: number;
  /** Rows of the largest segment. */
  readonly maxRows: number;

  constructor(shape: ColumnShape, columns: readonly Column[]) {
    const words = HASH_WORDS + shape.words * columns.length;
    const doubles = shape.doubles * columns.length;
    this.shape = shape;
    this.columns = columns;
    this.doubleOffset = doubles === 0 ? 0 : Math.ceil(words / 2);
    this.doubleStride = doubles === 0 ? 0 : this.doubleOffset + doubles;
    this.wordStride = doubles === 0 ? words : this.doubleStride * 2;
    const bytes = this.wordStride * Uint32Array.BYTES_PER_ELEMENT;
    this.maxRows = Math.min(MAX_ROWS, Math.floor(MAX_BYTES / bytes));
  }

  /** Places of this layout's columns in another one; -1 for those that it lacks. */
  placesIn(other: RowLayout<Column>): readonly number[] {
    return this.columns.map((column) => other.columns.indexOf(column));
  }
}

/** Number of rows for this many keys, with room for more. */
export function rowsFor(keys: number): number {
  return Math.max(MIN_ROWS, Math.ceil((keys * ROOM) / LOAD));
}

export class KeySegment<Column> {
  readonly layout: RowLayout<Column>;
  readonly rows: number;
  /** Number of hash bits that all keys in here share. */
  readonly depth: number;
  readonly words: Uint32Array;
  /** The same memory. */
  readonly doubles: Float64Array;
  count = 0;
  /** Index in its table's list of segments. */
  place = 0;
  readonly #stride: number;

  constructor(layout: RowLayout<Column>, rows: number, depth: number) {
    this.layout = layout;
    this.rows = rows;
    this.depth = depth;
    this.#stride = layout.wordStride;
    const buffer = new ArrayBuffer(rows * layout.wordStride * Uint32Array.BYTES_PER_ELEMENT);
    this.words = new Uint32Array(buffer);
    this.doubles = new Float64Array(buffer, 0, rows * layout.doubleStride);
  }

  get full(): boolean {
    return this.count >= Math.floor(this.rows * LOAD);
  }

  /** The row of a key, or the empty row where it would go; there is always one. */
  seek(lo: number, hi: number): number {
    const { words, rows } = this;
    const stride = this.#stride;
    let row = this.#home(lo);
    for (;;) {
      const at = row * stride;
      const found = words[at];
      if (found === 0 || (found === lo && words[at + 1] === hi)) return row;
      row = row + 1 === rows ? 0 : row + 1;
    }
  }

  holds(row: number): boolean {
    return this.words[row * this.#stride] !== 0;
  }

  /** Claims an empty row that `seek` found. */
  claim(row: number, lo: number, hi: number): void {
    const at = row * this.#stride;
    this.words[at] = lo;
    this.words[at + 1] = hi;
    this.count++;
  }

  /** Copies a row of another segment; `places` are those of this layout's columns in the other one. */
  adopt(from: KeySegment<Column>, row: number, places: readonly number[]): void {
    const source = row * from.#stride;
    const lo = from.words[source] ?? 0;
    const hi = from.words[source + 1] ?? 0;
    const found = this.seek(lo, hi);
    this.claim(found, lo, hi);
    const to = found * this.#stride;
    if (from.layout === this.layout) {
      for (let word = HASH_WORDS; word < this.#stride; word++) {
        this.words[to + word] = from.words[source + word] ?? 0;
      }
      return;
    }
    for (let at = 0; at < places.length; at++) {
      const place = places[at] ?? -1;
      if (place >= 0) this.#copyColumn(found, at, from, row, place);
    }
  }

  #copyColumn(to: number, at: number, from: KeySegment<Column>, row: number, place: number): void {
    const { words, doubles } = this.layout.shape;
    const w = this.wordAt(to, at);
    const fromW = from.wordAt(row, place);
    for (let word = 0; word < words; word++) this.words[w + word] = from.words[fromW + word] ?? 0;
    const d = this.doubleAt(to, at);
    const fromD = from.doubleAt(row, place);
    for (let double = 0; double < doubles; double++) {
      this.doubles[d + double] = from.doubles[fromD + double] ?? 0;
    }
  }

  /** Index of the first word of a column in a row. */
  wordAt(row: number, column: number): number {
    const { wordStride, wordOffset, shape } = this.layout;
    return row * wordStride + wordOffset + column * shape.words;
  }

  /** Index of the first double of a column in a row. */
  doubleAt(row: number, column: number): number {
    const { doubleStride, doubleOffset, shape } = this.layout;
    return row * doubleStride + doubleOffset + column * shape.doubles;
  }

  /** Empties a row and closes the gap, so that probing never meets a hole before its key. */
  remove(row: number): void {
    const stride = this.#stride;
    let gap = row;
    let next = row;
    for (;;) {
      next = next + 1 === this.rows ? 0 : next + 1;
      const lo = this.words[next * stride] ?? 0;
      if (lo === 0) break;
      const home = this.#home(lo);
      const stays = gap < next ? home > gap && home <= next : home > gap || home <= next;
      if (stays) continue;
      this.words.copyWithin(gap * stride, next * stride, (next + 1) * stride);
      gap = next;
    }
    this.words.fill(0, gap * stride, (gap + 1) * stride);
    this.count--;
  }

  /** Spreads any number of rows evenly by the low word; the table's directory uses the high one. */
  #home(lo: number): number {
    return Math.floor((lo * this.rows) / 4294967296);
  }
}
