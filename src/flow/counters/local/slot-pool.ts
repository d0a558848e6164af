// Pool of numbered slots in chunks of typed arrays. Slots form lists, each identified by its first slot:
// appending a slot and freeing any takes constant time, full chunks never move, and freed slots are reused.

/** No slot. */
export const NONE = 0xffffffff;

const CHUNK_BITS = 10;
const CHUNK = 2 ** CHUNK_BITS;
const FIRST = 8;

const DOUBLES = 3;
const TOKENS = 0;
const START = 1;
const SUM = 2;

const WORDS = 4;
const PROOF_LO = 0;
const PROOF_HI = 1;
const PREV = 2;
const NEXT = 3;

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

/**
 * Slot: tokens, start, sum; two words that prove an id, links to its neighbours in its list. 40 bytes.
 * Only a first slot holds the sum of its list and a link back to the last slot: most lists have one slot, so
 * keeping the two numbers here, not in the key table, saves more than the unused fields of other slots cost.
 */
export class SlotPool {
  /** Slots in use. */
  count = 0;
  readonly #chunks: Chunk[] = [];
  #rows = 0;
  #used = 0;
  #free = NONE;

  tokens(slot: number): number {
    return this.#double(slot, TOKENS);
  }

  start(slot: number): number {
    return this.#double(slot, START);
  }

  next(slot: number): number {
    return this.#word(slot, NEXT);
  }

  /** The last slot of the list that starts with `first`. */
  last(first: number): number {
    return this.#word(first, PREV);
  }

  /** Sum of tokens in the list that starts with `first`. */
  sum(first: number): number {
    return first === NONE ? 0 : this.#double(first, SUM);
  }

  /** True if the slot is in use and its id is proved by these words. */
  proves(slot: number, lo: number, hi: number): boolean {
    if (slot >= this.#used || this.start(slot) === Number.NEGATIVE_INFINITY) return false;
    return this.#word(slot, PROOF_LO) === lo && this.#word(slot, PROOF_HI) === hi;
  }

  prove(slot: number, lo: number, hi: number): void {
    this.#setWord(slot, PROOF_LO, lo);
    this.#setWord(slot, PROOF_HI, hi);
  }

  /** Appends a slot to the list that starts with `first`, or starts a new list for NONE. */
  take(tokens: number, start: number, first: number): number {
    let slot = this.#free;
    if (slot === NONE) {
      if (this.#used === this.#rows) this.#grow();
      slot = this.#used++;
    } else this.#free = this.next(slot);
    this.#setDouble(slot, TOKENS, tokens);
    this.#setDouble(slot, START, start);
    this.#setWord(slot, NEXT, NONE);
    this.count++;
    if (first === NONE) {
      this.#setWord(slot, PREV, slot);
      this.#setDouble(slot, SUM, tokens);
      return slot;
    }
    const last = this.last(first);
    this.#setWord(last, NEXT, slot);
    this.#setWord(slot, PREV, last);
    this.#setWord(first, PREV, slot);
    this.#setDouble(first, SUM, this.sum(first) + tokens);
    return slot;
  }

  /** Frees a slot of the list that starts with `first`, and returns what the list starts with afterwards. */
  free(slot: number, first: number): number {
    const next = this.next(slot);
    const prev = this.#word(slot, PREV);
    const left = Math.max(0, this.sum(first) - this.tokens(slot));
    const head = slot === first ? next : first;
    if (slot !== first) this.#setWord(prev, NEXT, next);
    if (next !== NONE) this.#setWord(next, PREV, prev);
    else if (slot !== first) this.#setWord(first, PREV, prev);
    if (head !== NONE) this.#setDouble(head, SUM, left);
    this.#setDouble(slot, START, Number.NEGATIVE_INFINITY);
    this.#setWord(slot, NEXT, this.#free);
    this.#free = slot;
    this.count--;
    return head;
  }

  /** The first chunk doubles until it has full size, so that a small limiter stays small. */
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

  #double(slot: number, column: number): number {
    return this.#chunk(slot).doubles[(slot % CHUNK) * DOUBLES + column] ?? 0;
  }

  #setDouble(slot: number, column: number, value: number): void {
    this.#chunk(slot).doubles[(slot % CHUNK) * DOUBLES + column] = value;
  }
}
