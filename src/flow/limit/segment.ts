// One open-addressed piece of a key table: rows of doubles and words in typed arrays, linear probing.
// The first two words of a row are the key's hash; a first word of 0 marks an empty row.

/** Rows of the largest segment. Rebuilding one costs some 50 microseconds; that is the longest insert. */
export const MAX_ROWS = 1024;
const MIN_ROWS = 8;
/** Filled part at which a segment is rebuilt. */
const LOAD = 0.8;
/** Room that a rebuild leaves, so that it is paid for by the inserts before the next one. */
const ROOM = 1.25;

/** Numbers of a row: how many doubles, and how many words including the two of the hash. */
export interface RowShape {
  readonly doubles: number;
  readonly words: number;
}

/** Rows that hold `keys` with room for more; above MAX_ROWS the keys want two segments. */
export function rowsFor(keys: number): number {
  return Math.max(MIN_ROWS, Math.ceil((keys * ROOM) / LOAD));
}

export class Segment {
  readonly rows: number;
  /** Bits of the hash that all keys in here share. */
  readonly depth: number;
  readonly doubles: Float64Array;
  readonly words: Uint32Array;
  count = 0;
  /** Where its table lists it. */
  place = 0;
  readonly #shape: RowShape;

  constructor(shape: RowShape, rows: number, depth: number) {
    this.#shape = shape;
    this.rows = rows;
    this.depth = depth;
    // One buffer for both: each costs some hundred bytes besides its content.
    const wordsAt = rows * shape.doubles * Float64Array.BYTES_PER_ELEMENT;
    const size = wordsAt + rows * shape.words * Uint32Array.BYTES_PER_ELEMENT;
    const buffer = new ArrayBuffer(size);
    this.doubles = new Float64Array(buffer, 0, rows * shape.doubles);
    this.words = new Uint32Array(buffer, wordsAt, rows * shape.words);
  }

  get full(): boolean {
    return this.count >= Math.floor(this.rows * LOAD);
  }

  /** The row of a key, or the empty row where it would go; there always is one. */
  seek(lo: number, hi: number): number {
    const { words: stride } = this.#shape;
    let row = this.#home(lo);
    for (;;) {
      const at = row * stride;
      const found = this.words[at];
      if (found === 0 || (found === lo && this.words[at + 1] === hi)) return row;
      row = row + 1 === this.rows ? 0 : row + 1;
    }
  }

  holds(row: number): boolean {
    return this.words[row * this.#shape.words] !== 0;
  }

  /** Claims an empty row that `seek` found. */
  claim(row: number, lo: number, hi: number): void {
    const at = row * this.#shape.words;
    this.words[at] = lo;
    this.words[at + 1] = hi;
    this.count++;
  }

  /** Copies a row of another segment of the same shape. */
  adopt(from: Segment, row: number): void {
    const { doubles, words } = this.#shape;
    const source = row * words;
    const to = this.seek(from.words[source] ?? 0, from.words[source + 1] ?? 0);
    this.#copyWords(from, row, to);
    this.count++;
    for (let index = 0; index < doubles; index++) {
      this.doubles[to * doubles + index] = from.doubles[row * doubles + index] ?? 0;
    }
  }

  /** Empties a row and closes the gap, so that probing never meets a hole before its key. */
  remove(row: number): void {
    const { doubles, words } = this.#shape;
    let gap = row;
    let next = row;
    for (;;) {
      next = next + 1 === this.rows ? 0 : next + 1;
      const lo = this.words[next * words] ?? 0;
      if (lo === 0) break;
      const home = this.#home(lo);
      const stays = gap < next ? home > gap && home <= next : home > gap || home <= next;
      if (stays) continue;
      this.#copyWords(this, next, gap);
      this.doubles.copyWithin(gap * doubles, next * doubles, (next + 1) * doubles);
      gap = next;
    }
    this.words.fill(0, gap * words, (gap + 1) * words);
    this.doubles.fill(0, gap * doubles, (gap + 1) * doubles);
    this.count--;
  }

  #copyWords(from: Segment, row: number, to: number): void {
    const { words } = this.#shape;
    for (let index = 0; index < words; index++) {
      this.words[to * words + index] = from.words[row * words + index] ?? 0;
    }
  }

  /** Spreads any number of rows evenly by the low word; directories use the high one. */
  #home(lo: number): number {
    return Math.floor((lo * this.rows) / 4294967296);
  }
}
