// Header blocks remembered by their bytes: callers repeat them, and what they mean stays the same as long as the
// dynamic table does. So a repeated block costs a comparison, and makes no string.

import type { Head } from "./exchange.ts";

/** Blocks that are told apart at a time; a caller has a few methods, each with a few shapes. A power of two. */
const SLOTS = 16;
/** Longer blocks carry something of their own and do not come again. Bytes. */
const MAX_BLOCK = 1024;
/** So that a small block of many references does not keep a large head. Bytes by RFC 9113 §6.5.2. */
const MAX_HEAD = 8192;
/** Slots get their memory in steps, so that blocks of nearly the same length reuse it. Bytes. */
const STEP = 64;
/** Bytes of each end that the slot is chosen by. */
const SAMPLE = 12;

class Slot {
  bytes: Uint8Array = new Uint8Array(STEP);
  length = 0;
  generation = -1;
  head: Head | undefined;
}

/** Direct-mapped and of bounded memory, all of it taken only when blocks come. */
export class RememberedHeads {
  #slots: (Slot | undefined)[] | undefined;
  #last: Slot | undefined;

  /** The head of the same bytes in the same generation of the dynamic table. */
  find(bytes: Buffer, start: number, end: number, generation: number): Head | undefined {
    const last = this.#last;
    if (last === undefined || this.#slots === undefined) return undefined;
    if (holds(last, bytes, start, end, generation)) return last.head;
    if (end - start > MAX_BLOCK) return undefined;
    const slot = this.#slots[place(bytes, start, end)];
    if (slot === undefined || !holds(slot, bytes, start, end, generation)) return undefined;
    this.#last = slot;
    return slot.head;
  }

  /**
   * Remembers a block that did not change the table: `generation` was the same before and after it was decoded.
   * What is too large, or incomplete, is not kept.
   */
  keep(bytes: Buffer, start: number, end: number, generation: number, head: Head): void {
    const length = end - start;
    if (length > MAX_BLOCK || head.size > MAX_HEAD || head.overflow) return;
    this.#slots ??= new Array<Slot | undefined>(SLOTS).fill(undefined);
    const at = place(bytes, start, end);
    let slot = this.#slots[at];
    if (slot === undefined) {
      slot = new Slot();
      this.#slots[at] = slot;
    }
    if (slot.bytes.length < length) {
      slot.bytes = new Uint8Array(Math.ceil(length / STEP) * STEP);
    }
    bytes.copy(slot.bytes, 0, start, end);
    slot.length = length;
    slot.generation = generation;
    slot.head = head;
    this.#last = slot;
  }
}

function holds(slot: Slot, bytes: Buffer, start: number, end: number, generation: number): boolean {
  const { length, bytes: known } = slot;
  if (slot.generation !== generation || length !== end - start) return false;
  // Callers' blocks begin alike and differ towards their end.
  for (let i = length - 1; i >= 0; i--) if (known[i] !== bytes[start + i]) return false;
  return true;
}

/** Cheap rather than good, and of the ends only: a collision costs a decoding. */
function place(bytes: Buffer, start: number, end: number): number {
  let hash = end - start;
  const head = Math.min(end, start + SAMPLE);
  for (let at = start; at < head; at++) hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0;
  for (let at = Math.max(head, end - SAMPLE); at < end; at++) {
    hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0;
  }
  return (hash ^ (hash >>> 8) ^ (hash >>> 16)) & (SLOTS - 1);
}
