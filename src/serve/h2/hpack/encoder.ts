// Writes header blocks (RFC 7541). One per connection: it shares a dynamic table with the peer's decoder. It inserts
// only while there is room, so nothing is ever evicted and an entry stays valid for the connection's life.

import { ENTRY_OVERHEAD } from "./dynamic-table.ts";
import { STATIC_COUNT, STATIC_INDEX, STATIC_NAMES, STATIC_VALUES } from "./static-table.ts";

/** A header block that is the same in every reply that has it: fields as names and values in turn. */
export class FixedBlock {
  readonly fields: readonly string[];

  constructor(fields: readonly string[]) {
    this.fields = fields;
  }
}

/** What a fixed block is on this connection, as long as the epoch is the same. */
interface Written {
  readonly block: FixedBlock;
  epoch: number;
  bytes: Uint8Array;
}

/** Size of the table until the peer says otherwise, and as much as is ever used. */
const TABLE = 4096;
/** Fixed blocks whose bytes are kept. A server has a handful; further ones are written anew each time. */
const MAX_BLOCKS = 32;
/** Names that `field` puts into the table, and how large such an entry may be: the rest is for fixed blocks. */
const MAX_NAMES = 16;
const MAX_NAME_ENTRY = 128;

/** At most: two size updates, the index of a name, and two lengths. */
const FIELD_ROOM = 32;

/** Never put into a table, here or at a later hop (§7.1.3). */
const SECRET: ReadonlySet<string> = new Set([
  "authorization",
  "cookie",
  "proxy-authorization",
  "set-cookie",
]);

const NOTHING = new Uint8Array(0);

/** How a literal begins (§6.2), and how many bits of its first byte are the name's index. */
const INSERTED = 0x40;
const NOT_INDEXED = 0x00;
const NEVER_INDEXED = 0x10;

/**
 * Strings are never Huffman-coded: nearly all of a reply is indexes, and for the few bytes left the coding would
 * cost more time than it saves. Characters are bytes (latin1).
 */
export class Encoder {
  /** In the order of insertion. */
  #names: string[] = [];
  #values: string[] = [];
  #used = 0;
  #capacity = TABLE;
  /** Names in the table by `field`. */
  #inserted = 0;
  readonly #written: Written[] = [];
  /** Changes when the bytes of fixed blocks do: an insertion moves the index of every older entry. */
  #epoch = 0;
  /** Smallest size of the table since the last block, to be announced before the next (§4.2); -1: none. */
  #smallest = -1;

  /** Takes over the peer's SETTINGS_HEADER_TABLE_SIZE, for the blocks that follow. */
  limitTable(size: number): void {
    const capacity = Math.min(size, TABLE);
    if (capacity === this.#capacity) return;
    this.#capacity = capacity;
    this.#epoch++;
    let smallest = this.#smallest === -1 ? capacity : Math.min(this.#smallest, capacity);
    if (capacity < this.#used) {
      // Which entries would remain is not worth knowing: both ends start afresh.
      smallest = 0;
      this.#names = [];
      this.#values = [];
      this.#used = 0;
      this.#inserted = 0;
    }
    this.#smallest = smallest;
  }

  /**
   * The bytes of a whole block, or of the beginning of one that `field` continues. They must be the next that the
   * peer decodes, and must not be written to.
   */
  fixed(block: FixedBlock): Uint8Array {
    const written = this.#written;
    for (let i = 0; i < written.length; i++) {
      const known = written[i];
      if (known?.block !== block) continue;
      if (known.epoch === this.#epoch) return known.bytes;
      return this.#rewrite(known);
    }
    const known = { block, epoch: -1, bytes: NOTHING };
    if (written.length < MAX_BLOCKS) written.push(known);
    return this.#rewrite(known);
  }

  /** Bytes that fields, names and values in turn, may take at most. */
  room(fields: readonly string[]): number {
    let room = (fields.length / 2) * FIELD_ROOM;
    for (let i = 0; i < fields.length; i++) room += fields[i]?.length ?? 0;
    return room;
  }

  /** Writes a field whose value may be another next time; returns where it ends. */
  field(into: Uint8Array, at: number, name: string, value: string): number {
    return this.#field(into, this.#updates(into, at), name, value, false);
  }

  /** A whole block of any fields, names and values in turn. */
  block(fields: readonly string[]): Uint8Array {
    return this.#block(fields, false);
  }

  #rewrite(known: Written): Uint8Array {
    // Of the time before: with an insertion or a size update the bytes are good for once.
    known.epoch = this.#epoch;
    known.bytes = this.#block(known.block.fields, true);
    return known.bytes;
  }

  #block(fields: readonly string[], constant: boolean): Uint8Array {
    const into = new Uint8Array(FIELD_ROOM + this.room(fields));
    let at = this.#updates(into, 0);
    for (let i = 0; i < fields.length; i += 2) {
      at = this.#field(into, at, fields[i] ?? "", fields[i + 1] ?? "", constant);
    }
    return into.slice(0, at);
  }

  /** Size updates that are due: the smallest size there was, then the present one. */
  #updates(into: Uint8Array, at: number): number {
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
    if (SECRET.has(name)) return literal(into, at, NEVER_INDEXED, index, name, value);
    const names = this.#names;
    const newest = STATIC_COUNT + names.length;
    let known = index;
    for (let i = 0; i < names.length; i++) {
      if (names[i] !== name) continue;
      if (this.#values[i] === value) return integer(into, at, 0x80, 0x7f, newest - i);
      known = newest - i;
    }
    if (index === 0) index = known;
    const insert = this.#worthwhile(index, name, value, constant);
    const end = literal(into, at, insert ? INSERTED : NOT_INDEXED, index, name, value);
    if (insert) this.#insert(name, value);
    if (insert && !constant) this.#inserted++;
    return end;
  }

  #worthwhile(index: number, name: string, value: string, constant: boolean): boolean {
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

/** An integer (§5.1) behind the bits of `kind`; `prefix` has ones where its bits are. */
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
