// Header blocks remembered by their bytes: callers repeat them, and what they mean stays the same as long as the
// dynamic table does. So a repeated block costs a comparison, and makes no string.

import type { Head } from "./exchange.ts";
import { HELD_PER_HEAD_BYTE, MAX_REMEMBERED } from "./limits.ts";

/** Blocks that are told apart at a time; a caller has a few methods, each with a few shapes. */
const MOST = 16;
/** Longer blocks carry something of their own and do not come again. Bytes. */
const MAX_BLOCK = 1024;
/** Blocks get their memory in steps, so that those of nearly the same length use it again. Bytes. */
const STEP = 64;
/** What a head takes besides its fields: the objects for it, for its block and for what is worked out about it. Bytes. */
const OVERHEAD = 256;

interface Known {
  readonly bytes: Uint8Array;
  readonly length: number;
  readonly head: Head;
  readonly cost: number;
}

/** Takes memory only when blocks come, and never more than MAX_REMEMBERED: then the oldest make room. */
export class RememberedHeads {
  #known: Known[] | undefined;
  #last: Known | undefined;
  /** Of the dynamic table, for all of them: what was known of another one never comes back. */
  #generation = -1;
  #room = MAX_REMEMBERED;

  /** The head of the same bytes in the same generation of the dynamic table. */
  find(bytes: Buffer, start: number, end: number, generation: number): Head | undefined {
    const last = this.#last;
    if (last === undefined || generation !== this.#generation) return undefined;
    if (holds(last, bytes, start, end)) return last.head;
    if (this.#known === undefined) return undefined;
    for (const known of this.#known) {
      if (!holds(known, bytes, start, end)) continue;
      this.#last = known;
      return known.head;
    }
    return undefined;
  }

  /**
   * Remembers a block that did not change the table: `generation` was the same before and after it was decoded.
   * What is too large, or incomplete, is not kept.
   */
  keep(bytes: Buffer, start: number, end: number, generation: number, head: Head): void {
    const length = end - start;
    const size = Math.ceil(length / STEP) * STEP;
    const cost = size + head.size * HELD_PER_HEAD_BYTE + OVERHEAD;
    if (length > MAX_BLOCK || cost > MAX_REMEMBERED || head.overflow) return;
    if (this.#known === undefined || generation !== this.#generation) {
      this.#known = [];
      this.#room = MAX_REMEMBERED;
      this.#generation = generation;
    }
    const copy = this.#free(this.#known, cost, size) ?? new Uint8Array(size);
    bytes.copy(copy, 0, start, end);
    this.#last = { bytes: copy, length, head, cost };
    this.#known.push(this.#last);
    this.#room -= cost;
  }

  /** Makes room; gives memory of that size if one of those that are forgotten had it. */
  #free(known: Known[], cost: number, size: number): Uint8Array | undefined {
    let found: Uint8Array | undefined;
    while (known.length === MOST || this.#room < cost) {
      const oldest = known.shift();
      if (oldest === undefined) break;
      this.#room += oldest.cost;
      if (oldest.bytes.length === size) found = oldest.bytes;
    }
    return found;
  }
}

function holds(
  { bytes: known, length }: Known,
  bytes: Buffer,
  start: number,
  end: number,
): boolean {
  if (length !== end - start) return false;
  // Callers' blocks begin alike and differ towards their end.
  for (let i = length - 1; i >= 0; i--) if (known[i] !== bytes[start + i]) return false;
  return true;
}
