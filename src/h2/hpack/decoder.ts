// Decodes field blocks (RFC 7541). There is one decoder per connection: its dynamic table follows the peer's encoder,
// so it must decode every block completely and in order, even that of a refused request.

import { DynamicTable } from "./dynamic-table.ts";
import type { FieldList } from "./field-list.ts";
import { decodedRoom, decodeHuffman } from "./huffman.ts";
import { STATIC_COUNT, STATIC_NAMES, STATIC_VALUES } from "./static-table.ts";

/** The tables of the two ends differ after such a block, so the connection ends with COMPRESSION_ERROR. */
export class CompressionError extends Error {
  override readonly name = "CompressionFault";
}

/** Size updates before a block: the smallest size since the last block, and the current size (§4.2). */
const MAX_SIZE_UPDATES = 2;

/** Bytes of an integer after its prefix: 28 bits, more than any valid length or index needs. */
const INTEGER_BYTES = 4;
/**
 * Huffman strings of at most this decoded size use a permanent buffer, which is small to keep idle connections cheap.
 */
const SCRATCH_SIZE = 256;

export class Decoder {
  /** Our SETTINGS_HEADER_TABLE_SIZE, the largest table that the peer may use. */
  readonly #maxTable: number;
  readonly #table: DynamicTable;
  /** Allocated at the first Huffman string. */
  #scratch: Buffer | undefined;
  /** Offset after the last integer or string that was read. */
  #at = 0;

  constructor(maxTable: number) {
    this.#maxTable = maxTable;
    this.#table = new DynamicTable(maxTable);
  }

  /** Changes with the dynamic table. Within one generation the same bytes mean the same fields. */
  get generation(): number {
    return this.#table.generation;
  }

  /** Adds the fields of the block `bytes[start, end)` to a list. Throws CompressionError. */
  decode(bytes: Buffer, start: number, end: number, into: FieldList): void {
    this.#at = start;
    this.#resize(bytes, end);
    while (this.#at < end) {
      const first = bytes[this.#at] ?? 0;
      if (first >= 0x80) this.#indexed(bytes, end, first, into);
      else if (first >= 0x40) this.#literal(bytes, end, 0x3f, true, into);
      else if (first >= 0x20) throw new CompressionError("a size update after a field");
      else this.#literal(bytes, end, 0x0f, false, into);
    }
  }

  /** Reads size updates, which may only precede the first field (§4.2). */
  #resize(bytes: Buffer, end: number): void {
    for (let updates = 1; this.#at < end && ((bytes[this.#at] ?? 0) & 0xe0) === 0x20; updates++) {
      if (updates > MAX_SIZE_UPDATES) {
        throw new CompressionError(`at most ${MAX_SIZE_UPDATES} size updates of a block, got more`);
      }
      const size = this.#integer(bytes, end, 0x1f);
      if (size > this.#maxTable) {
        throw new CompressionError(`a table of at most ${this.#maxTable} bytes, got ${size}`);
      }
      this.#table.resize(size);
    }
  }

  #indexed(bytes: Buffer, end: number, first: number, into: FieldList): void {
    let index = first & 0x7f;
    if (index === 0x7f) index = this.#integer(bytes, end, 0x7f);
    else this.#at++;
    if (index <= STATIC_COUNT) {
      if (index === 0) throw new CompressionError("index 0");
      into.add(STATIC_NAMES[index] ?? "", STATIC_VALUES[index] ?? "");
      return;
    }
    const back = this.#back(index);
    into.add(this.#table.name(back), this.#table.value(back));
  }

  #literal(bytes: Buffer, end: number, prefix: number, keep: boolean, into: FieldList): void {
    const index = this.#integer(bytes, end, prefix);
    const name =
      index === 0
        ? this.#string(bytes, end)
        : index <= STATIC_COUNT
          ? (STATIC_NAMES[index] ?? "")
          : this.#table.name(this.#back(index));
    const value = this.#string(bytes, end);
    if (keep) this.#table.insert(name, value);
    into.add(name, value);
  }

  #back(index: number): number {
    const back = index - STATIC_COUNT - 1;
    if (back < this.#table.count) return back;
    throw new CompressionError(`an index up to ${STATIC_COUNT + this.#table.count}, got ${index}`);
  }

  /** Reads an integer (§5.1) at the current offset; `prefix` is the bit mask of its prefix. */
  #integer(bytes: Buffer, end: number, prefix: number): number {
    let at = this.#at;
    if (at >= end) throw new CompressionError("the block ends inside a field");
    let value = (bytes[at++] ?? 0) & prefix;
    if (value === prefix) {
      for (let shift = 0; ; shift += 7) {
        if (at >= end) throw new CompressionError("the block ends inside an integer");
        if (shift === INTEGER_BYTES * 7) throw new CompressionError("an integer too long");
        const byte = bytes[at++] ?? 0;
        value += (byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
    }
    this.#at = at;
    return value;
  }

  #string(bytes: Buffer, end: number): string {
    const coded = this.#at < end && (bytes[this.#at] ?? 0) >= 0x80;
    const length = this.#integer(bytes, end, 0x7f);
    const start = this.#at;
    const stop = start + length;
    if (stop > end) throw new CompressionError("the block ends inside a string");
    this.#at = stop;
    if (!coded) return bytes.toString("latin1", start, stop);
    const room = decodedRoom(length);
    const into = room <= SCRATCH_SIZE ? this.#memory() : Buffer.allocUnsafe(room);
    const decoded = decodeHuffman(bytes, start, stop, into);
    if (decoded === -1) throw new CompressionError("a string that is not a valid Huffman code");
    return into.toString("latin1", 0, decoded);
  }

  #memory(): Buffer {
    this.#scratch ??= Buffer.allocUnsafeSlow(SCRATCH_SIZE);
    return this.#scratch;
  }
}
