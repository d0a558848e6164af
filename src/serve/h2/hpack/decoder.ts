// Reads header blocks (RFC 7541). One per connection: its dynamic table follows the peer's encoder, so every block
// must pass through it whole and in order, even one whose request is refused.

import type { FieldList } from "../fields.ts";
import { DynamicTable } from "./dynamic-table.ts";
import { decodedRoom, decodeHuffman } from "./huffman.ts";
import { STATIC_COUNT, STATIC_NAMES, STATIC_VALUES } from "./static-table.ts";

/** A block that RFC 7541 forbids: the table is out of step, the connection ends with COMPRESSION_ERROR. */
export class CompressionFault extends Error {
  override readonly name = "CompressionFault";
}

/** Bytes behind the prefix of an integer: 28 bits, more than any length or index that could be right here. */
const INTEGER_BYTES = 4;
/** Huffman strings up to this length are decoded in memory that is kept; an idle connection should cost little. */
const SCRATCH = 256;

export class Decoder {
  /** Our SETTINGS_HEADER_TABLE_SIZE: the peer may not ask for more. */
  readonly #maxTable: number;
  readonly #table: DynamicTable;
  /** Made at the first Huffman string. */
  #scratch: Buffer | undefined;
  /** Behind the integer or string that was read last. */
  #at = 0;

  constructor(maxTable: number) {
    this.#maxTable = maxTable;
    this.#table = new DynamicTable(maxTable);
  }

  /** Changes whenever the dynamic table does; within one, the same bytes mean the same fields. */
  get generation(): number {
    return this.#table.generation;
  }

  /** Adds the fields of the block `bytes[start, end)`. Throws CompressionFault. */
  decode(bytes: Buffer, start: number, end: number, into: FieldList): void {
    this.#at = start;
    this.#resize(bytes, end);
    while (this.#at < end) {
      const first = bytes[this.#at] ?? 0;
      if (first >= 0x80) this.#indexed(bytes, end, first, into);
      else if (first >= 0x40) this.#literal(bytes, end, 0x3f, true, into);
      else if (first >= 0x20) throw new CompressionFault("a size update behind a field");
      else this.#literal(bytes, end, 0x0f, false, into);
    }
  }

  /** Size updates come before the first field only (§4.2). */
  #resize(bytes: Buffer, end: number): void {
    while (this.#at < end && ((bytes[this.#at] ?? 0) & 0xe0) === 0x20) {
      const size = this.#integer(bytes, end, 0x1f);
      if (size > this.#maxTable) {
        throw new CompressionFault(`a table of at most ${this.#maxTable} bytes, got ${size}`);
      }
      this.#table.resize(size);
    }
  }

  #indexed(bytes: Buffer, end: number, first: number, into: FieldList): void {
    let index = first & 0x7f;
    if (index === 0x7f) index = this.#integer(bytes, end, 0x7f);
    else this.#at++;
    if (index <= STATIC_COUNT) {
      if (index === 0) throw new CompressionFault("index 0");
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
    throw new CompressionFault(`an index up to ${STATIC_COUNT + this.#table.count}, got ${index}`);
  }

  /** An integer (§5.1) whose first byte is here; `prefix` has ones where its bits are. */
  #integer(bytes: Buffer, end: number, prefix: number): number {
    let at = this.#at;
    if (at >= end) throw new CompressionFault("the block ends inside a field");
    let value = (bytes[at++] ?? 0) & prefix;
    if (value === prefix) {
      for (let shift = 0; ; shift += 7) {
        if (at >= end) throw new CompressionFault("the block ends inside an integer");
        if (shift === INTEGER_BYTES * 7) throw new CompressionFault("an integer too long");
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
    if (stop > end) throw new CompressionFault("the block ends inside a string");
    this.#at = stop;
    if (!coded) return bytes.toString("latin1", start, stop);
    const room = decodedRoom(length);
    const into = room <= SCRATCH ? this.#memory() : Buffer.allocUnsafe(room);
    const decoded = decodeHuffman(bytes, start, stop, into);
    if (decoded === -1) throw new CompressionFault("a string that is no Huffman code");
    return into.toString("latin1", 0, decoded);
  }

  #memory(): Buffer {
    this.#scratch ??= Buffer.allocUnsafeSlow(SCRATCH);
    return this.#scratch;
  }
}
