// Caches decoded field blocks by their bytes. Callers repeat their blocks, whose meaning is constant while the dynamic
// table is unchanged. A repeated block costs one comparison and creates no strings.

import type { RequestHead } from "../exchange.ts";
import { BUFFERED_PER_FIELD_BYTE, MAX_BLOCK_CACHE } from "../limits.ts";

/** Blocks per connection; a caller has a few methods, each with a few variants. */
const MAX_BLOCKS = 16;
/** Bytes. Longer blocks contain a unique value and do not repeat. */
const MAX_BLOCK_LENGTH = 1024;
/** Bytes. Memory is allocated in steps, so that blocks of nearly the same length can reuse it. */
const SIZE_STEP = 64;
/** Bytes that an entry takes besides its fields: the objects for the head, the block and the memo. */
const ENTRY_OVERHEAD = 256;

interface CachedBlock {
  readonly bytes: Uint8Array;
  readonly length: number;
  readonly head: RequestHead;
  readonly cost: number;
}

/** Allocates memory only when blocks arrive and never more than MAX_BLOCK_CACHE; then the oldest blocks make room. */
export class FieldBlockCache {
  #blocks: CachedBlock[] | undefined;
  #last: CachedBlock | undefined;
  /** The generation of the dynamic table to which all entries belong: older blocks are never valid again. */
  #generation = -1;
  #room = MAX_BLOCK_CACHE;

  /** Returns the head of a block with the same bytes in the same generation of the dynamic table. */
  find(bytes: Buffer, start: number, end: number, generation: number): RequestHead | undefined {
    const last = this.#last;
    if (last === undefined || generation !== this.#generation) return undefined;
    if (matches(last, bytes, start, end)) return last.head;
    if (this.#blocks === undefined) return undefined;
    for (const block of this.#blocks) {
      if (!matches(block, bytes, start, end)) continue;
      this.#last = block;
      return block.head;
    }
    return undefined;
  }

  /** Caches a block that did not change the table, unless it is too large or incomplete. */
  add(bytes: Buffer, start: number, end: number, generation: number, head: RequestHead): void {
    const length = end - start;
    const size = Math.ceil(length / SIZE_STEP) * SIZE_STEP;
    const cost = size + head.size * BUFFERED_PER_FIELD_BYTE + ENTRY_OVERHEAD;
    if (length > MAX_BLOCK_LENGTH || cost > MAX_BLOCK_CACHE || head.flaw !== undefined) return;
    if (this.#blocks === undefined || generation !== this.#generation) {
      this.#blocks = [];
      this.#room = MAX_BLOCK_CACHE;
      this.#generation = generation;
    }
    const copy = this.#evict(this.#blocks, cost, size) ?? new Uint8Array(size);
    bytes.copy(copy, 0, start, end);
    this.#last = { bytes: copy, length, head, cost };
    this.#blocks.push(this.#last);
    this.#room -= cost;
  }

  /** Makes room by evicting the oldest entries; returns the memory of one if its size fits. */
  #evict(blocks: CachedBlock[], cost: number, size: number): Uint8Array | undefined {
    let found: Uint8Array | undefined;
    while (blocks.length === MAX_BLOCKS || this.#room < cost) {
      const oldest = blocks.shift();
      if (oldest === undefined) break;
      this.#room += oldest.cost;
      if (oldest.bytes.length === size) found = oldest.bytes;
    }
    return found;
  }
}

function matches(
  { bytes: cached, length }: CachedBlock,
  bytes: Buffer,
  start: number,
  end: number,
): boolean {
  if (length !== end - start) return false;
  // Compares from the end: blocks of one caller begin alike and differ towards the end.
  for (let i = length - 1; i >= 0; i--) if (cached[i] !== bytes[start + i]) return false;
  return true;
}
