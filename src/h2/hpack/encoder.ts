// Encodes field blocks (RFC 7541). There is one encoder per connection: it shares a dynamic table with the peer's
// decoder. It inserts only while there is room, so nothing is ever evicted and an entry stays valid for the life of
// the connection.

import type { FixedBlock } from "../exchange.ts";
import { ENTRY_OVERHEAD } from "./dynamic-table.ts";
import { STATIC_COUNT, STATIC_INDEX, STATIC_NAMES, STATIC_VALUES } from "./static-table.ts";

/** The encoded form of a fixed block on this connection, valid for one epoch. */
interface EncodedBlock {
  readonly block: FixedBlock;
  epoch: number;
  bytes: Uint8Array;
}

/** Default size of the table, and the most that is ever used. */
const TABLE_SIZE = 4096;
/** Fixed blocks whose bytes are kept; a server has a handful. */
const MAX_BLOCKS = 32;
/** Limits on the entries that `field` inserts. The rest of the table is for fixed blocks. */
const MAX_NAMES = 16;
const MAX_NAME_ENTRY = 128;

/** Overhead of a field at most: two size updates, the index of a name, and two lengths. */
const FIELD_ROOM = 32;

/** Fields that are never put into a table, neither here nor at a later hop (§7.1.3). */
const NEVER_INDEXED_NAMES: ReadonlySet<string> = new Set([
  "authorization",
  "cookie",
  "proxy-authorization",
  "set-cookie",
]);

const NOTHING = new Uint8Array(0);

/** First bits of literals (§6.2). */
const INSERTED = 0x40;
const NOT_INDEXED = 0x00;
const NEVER_INDEXED = 0x10;

/**
 * Strings are never Huffman-coded: nearly all of a reply consists of indexes, and for the few remaining bytes the
 * coding would cost more time than it saves. Characters are bytes (latin1).
 */
export class Encoder {
  /** In order of insertion. */
  #names: string[] = [];
  #values: string[] = [];
  #used = 0;
  #capacity = TABLE_SIZE;
  /** Number of entries that `field` inserted. */
  #inserted = 0;
  readonly #encodedBlocks: EncodedBlock[] = [];
  /** Changes when encoded blocks become invalid: an insertion shifts the index of every older entry. */
  #epoch = 0;
  /** Smallest table size since the last block, to be announced in the next one (§4.2); -1: none. */
  #smallest = -1;

  /** Applies the peer's SETTINGS_HEADER_TABLE_SIZE to the blocks that follow. */
  limitTable(size: number): void {
    const capacity = Math.min(size, TABLE_SIZE);
    if (capacity === this.#capacity) return;
    this.#capacity = capacity;
    this.#epoch++;
    let smallest = this.#smallest === -1 ? capacity : Math.min(this.#smallest, capacity);
    if (capacity < this.#used) {
      // Start afresh on both ends instead of tracking which entries would remain.
      smallest = 0;
      this.#names = [];
      this.#values = [];
      this.#used = 0;
      this.#inserted = 0;
    }
    this.#smallest = smallest;
  }

  /**
   * Returns the bytes of a whole block, or of the start of one that `field` continues. They must be sent before
   * anything else is encoded, and must not be modified.
   */
  fixed(block: FixedBlock): Uint8Array {
    const written = this.#encodedBlocks;
    for (let i = 0; i < written.length; i++) {
      const known = written[i];
      if (known?.block !== block) continue;
      if (known.epoch === this.#epoch) return known.bytes;
      return this.#encodeAgain(known);
    }
    const known = { block, epoch: -1, bytes: NOTHING };
    if (written.length < MAX_BLOCKS) written.push(known);
    return this.#encodeAgain(known);
  }

  /** Most bytes that the encoded fields can take; `fields` alternates names and values. */
  room(fields: readonly string[]): number {
    let room = (fields.length / 2) * FIELD_ROOM;
    for (let i = 0; i < fields.length; i++) room += fields[i]?.length ?? 0;
    return room;
  }

  /** Encodes a field whose value may vary from block to block; returns the offset after it. */
  field(into: Uint8Array, at: number, name: string, value: string): number {
    return this.#field(into, this.#writeSizeUpdates(into, at), name, value, false);
  }

  /** Encodes a whole block; `fields` alternates names and values. */
  block(fields: readonly string[]): Uint8Array {
    return this.#block(fields, false);
  }

  #encodeAgain(known: EncodedBlock): Uint8Array {
    // If encoding inserts an entry or writes a size update, these bytes are valid only once.
    known.epoch = this.#epoch;
    known.bytes = this.#block(known.block.fields, true);
    return known.bytes;
  }

  #block(fields: readonly string[], constant: boolean): Uint8Array {
    const into = new Uint8Array(FIELD_ROOM + this.room(fields));
    let at = this.#writeSizeUpdates(into, 0);
    for (let i = 0; i < fields.length; i += 2) {
      at = this.#field(into, at, fields[i] ?? "", fields[i + 1] ?? "", constant);
    }
    return into.slice(0, at);
  }

  /** Writes size updates that are due: the smallest size since the last block, then the current one. */
  #writeSizeUpdates(into: Uint8Array, at: number): number {
    const smallest = this.#smallest;
    if (smallest === -1) return at;
    this.#smallest = -1;
    this.#epoch++;
    const behind = integer(into, at, 0x20, 0x1f, smallest);
    return smallest === this.#capacity ? behind : integer(into, behind, 0x20, 0x1f, this.#capacity);
  }

  #field(into: Uint8Array, at: number, name: string, value: string, constant: boolean): number {
    let index = STATIC_INDEX.get(name) ?? 0;
    for (let i = index; i !== 0 && STATIC_NAMES[i] === name; i++) {
      if (STATIC_VALUES[i] === value) return integer(into, at, 0x80, 0x7f, i);
    }
    if (NEVER_INDEXED_NAMES.has(name)) return literal(into, at, NEVER_INDEXED, index, name, value);
    const names = this.#names;
    const newest = STATIC_COUNT + names.length;
    let known = index;
    for (let i = 0; i < names.length; i++) {
      if (names[i] !== name) continue;
      if (this.#values[i] === value) return integer(into, at, 0x80, 0x7f, newest - i);
      known = newest - i;
    }
    if (index === 0) index = known;
    const insert = this.#shouldInsert(index, name, value, constant);
    const end = literal(into, at, insert ? INSERTED : NOT_INDEXED, index, name, value);
    if (insert) this.#insert(name, value);
    if (insert && !constant) this.#inserted++;
    return end;
  }

  #shouldInsert(index: number, name: string, value: string, constant: boolean): boolean {
    const size = name.length + value.length + ENTRY_OVERHEAD;
    if (this.#used + size > this.#capacity) return false;
    return constant || (index === 0 && size <= MAX_NAME_ENTRY && this.#inserted < MAX_NAMES);
  }

  #insert(name: string, value: string): void {
    this.#names.push(name);
    this.#values.push(value);
    this.#used += name.length + value.length + ENTRY_OVERHEAD;
    this.#epoch++;
  }
}

function literal(
  into: Uint8Array,
  at: number,
  kind: number,
  index: number,
  name: string,
  value: string,
): number {
  let end = integer(into, at, kind, kind === INSERTED ? 0x3f : 0x0f, index);
  if (index === 0) end = string(into, end, name);
  return string(into, end, value);
}

/** Writes an integer (§5.1) after the bits of `kind`; `prefix` is the bit mask of its prefix. */
function integer(
  into: Uint8Array,
  at: number,
  kind: number,
  prefix: number,
  value: number,
): number {
  if (value < prefix) {
    into[at] = kind | value;
    return at + 1;
  }
  into[at++] = kind | prefix;
  let rest = value - prefix;
  for (; rest >= 128; rest >>>= 7) into[at++] = rest | 128;
  into[at++] = rest;
  return at;
}

function string(into: Uint8Array, at: number, text: string): number {
  const start = integer(into, at, 0, 0x7f, text.length);
  for (let i = 0; i < text.length; i++) into[start + i] = text.charCodeAt(i);
  return start + text.length;
}
