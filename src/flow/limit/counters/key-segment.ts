// One open-addressed piece of a key table: rows of words and doubles in one buffer, found by linear probing.
// The first two words of a row are the key's hash; a first word of 0 marks an empty row.

/** Rows of the largest segment. Rebuilding one takes about 50 microseconds, which bounds the longest insert. */
export const MAX_ROWS = 1024;
const MIN_ROWS = 8;
/** Filled part at which a segment is rebuilt. */
const LOAD = 0.8;
/** Room that a rebuild leaves, so that it is paid for by the inserts before the next one. */
const ROOM = 1.25;

/** Number of words in a row, the two of the hash included, and number of doubles. */
export interface RowShape {
  readonly words: number;
  readonly doubles: number;
}

/**
 * Where the numbers of a row are. Words and doubles of one row lie beside each other, so that a lookup touches
 * one cache line: words first, padded to a whole double where there are doubles.
 */
export class RowLayout {
  /** Words from one row to the next. */
  readonly wordStride: number;
  /** Doubles from one row to the next; 0 where rows have none. */
  readonly doubleStride: number;
  /** Doubles that a row's words take up: the first double of a row is behind them. */
  readonly doubleOffset: number;

  constructor({ words, doubles }: RowShape) {
    this.doubleOffset = doubles === 0 ? 0 : Math.ceil(words / 2);
    this.doubleStride = doubles === 0 ? 0 : this.doubleOffset + doubles;
    this.wordStride = doubles === 0 ? words : this.doubleStride * 2;
  }
}

/** Number of rows that hold so many keys with room for more; above MAX_ROWS the keys need two segments. */
export function rowsFor(keys: number): number {
  return Math.max(MIN_ROWS, Math.ceil((keys * ROOM) / LOAD));
}

export class KeySegment {
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

  constructor(layout: RowLayout, rows: number, depth: number) {
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

  /** Copies a row of another segment of the same layout. */
  adopt(from: KeySegment, row: number): void {
    const source = row * this.#stride;
    const to = this.seek(from.words[source] ?? 0, from.words[source + 1] ?? 0) * this.#stride;
    for (let word = 0; word < this.#stride; word++) {
      this.words[to + word] = from.words[source + word] ?? 0;
    }
    this.count++;
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
