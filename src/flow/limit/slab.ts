// Numbered slots in chunks of typed arrays: taking and freeing one is constant time, nothing is ever
// moved when there are many, and freed slots are used again.

/** No slot. */
export const NONE = 0xffffffff;

const CHUNK_BITS = 10;
const CHUNK = 2 ** CHUNK_BITS;
const FIRST = 8;

const DOUBLES = 2;
const WORDS = 4;

interface Chunk {
  readonly rows: number;
  readonly doubles: Float64Array;
  readonly words: Uint32Array;
}

function chunkOf(rows: number): Chunk {
  const wordsAt = rows * DOUBLES * Float64Array.BYTES_PER_ELEMENT;
  const buffer = new ArrayBuffer(wordsAt + rows * WORDS * Uint32Array.BYTES_PER_ELEMENT);
  return {
    rows,
    doubles: new Float64Array(buffer, 0, rows * DOUBLES),
    words: new Uint32Array(buffer, wordsAt, rows * WORDS),
  };
}

/** Slot: tokens, start; two words that prove an id, links to its neighbours in order of start. 32 bytes. */
export class Slab {
  /** Slots in use. */
  count = 0;
  readonly #chunks: Chunk[] = [];
  #rows = 0;
  #used = 0;
  #free = NONE;

  tokens(slot: number): number {
    return this.#chunk(slot).doubles[(slot % CHUNK) * DOUBLES] ?? 0;
  }

  start(slot: number): number {
    return this.#chunk(slot).doubles[(slot % CHUNK) * DOUBLES + 1] ?? 0;
  }

  prev(slot: number): number {
    return this.#word(slot, 2);
  }

  next(slot: number): number {
    return this.#word(slot, 3);
  }

  /** Whether the slot is in use and was proved by these words. */
  proves(slot: number, lo: number, hi: number): boolean {
    if (slot >= this.#used || this.start(slot) === Number.NEGATIVE_INFINITY) return false;
    return this.#word(slot, 0) === lo && this.#word(slot, 1) === hi;
  }

  prove(slot: number, lo: number, hi: number): void {
    this.#setWord(slot, 0, lo);
    this.#setWord(slot, 1, hi);
  }

  take(tokens: number, start: number, prev: number): number {
    let slot = this.#free;
    if (slot === NONE) {
      if (this.#used === this.#rows) this.#grow();
      slot = this.#used++;
    } else this.#free = this.next(slot);
    this.#setNumbers(slot, tokens, start);
    this.#setWord(slot, 2, prev);
    this.#setWord(slot, 3, NONE);
    if (prev !== NONE) this.#setWord(prev, 3, slot);
    this.count++;
    return slot;
  }

  /** Frees a slot and joins its neighbours. */
  free(slot: number): void {
    const prev = this.prev(slot);
    const next = this.next(slot);
    if (prev !== NONE) this.#setWord(prev, 3, next);
    if (next !== NONE) this.#setWord(next, 2, prev);
    this.#setNumbers(slot, 0, Number.NEGATIVE_INFINITY);
    this.#setWord(slot, 3, this.#free);
    this.#free = slot;
    this.count--;
  }

  /** The first chunk doubles until it is whole, so that a small limiter stays small. */
  #grow(): void {
    const first = this.#chunks[0];
    if (first !== undefined && first.rows === CHUNK) {
      this.#chunks.push(chunkOf(CHUNK));
      this.#rows += CHUNK;
      return;
    }
    const wider = chunkOf(first === undefined ? FIRST : first.rows * 2);
    if (first !== undefined) {
      wider.doubles.set(first.doubles);
      wider.words.set(first.words);
    }
    this.#chunks[0] = wider;
    this.#rows = wider.rows;
  }

  #chunk(slot: number): Chunk {
    const chunk = this.#chunks[slot >>> CHUNK_BITS];
    if (chunk === undefined) throw new RangeError(`slot ${slot} of ${this.#rows}`);
    return chunk;
  }

  #word(slot: number, column: number): number {
    return this.#chunk(slot).words[(slot % CHUNK) * WORDS + column] ?? 0;
  }

  #setWord(slot: number, column: number, value: number): void {
    this.#chunk(slot).words[(slot % CHUNK) * WORDS + column] = value;
  }

  #setNumbers(slot: number, tokens: number, start: number): void {
    const { doubles } = this.#chunk(slot);
    const at = (slot % CHUNK) * DOUBLES;
    doubles[at] = tokens;
    doubles[at + 1] = start;
  }
}
