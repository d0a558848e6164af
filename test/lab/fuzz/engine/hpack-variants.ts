// Writes field blocks as various clients might: every kind of literal, both tables, with and without Huffman coding,
// and table size updates, all at random and all valid.

import {
  type Field,
  huffmanString,
  indexed,
  integer,
  rawString,
  STATIC_TABLE,
  tableSize,
} from "../../../kit/clients/hpack.ts";
import type { Random } from "./random.ts";

/** SETTINGS_HEADER_TABLE_SIZE of the server, which is also the initial value. */
const TABLE = 4_096;
const OVERHEAD = 32;

export class HeaderBlockWriter {
  readonly #random: Random;
  readonly #noHuffman: boolean;
  /** Only `x-text` enters the dynamic table, so that the same bytes recur with another meaning. */
  readonly reusesBlocks: boolean;
  #table: Field[] = [];
  #used = 0;
  #size = TABLE;

  constructor(random: Random) {
    this.#random = random;
    this.reusesBlocks = random.chance(0.15);
    this.#noHuffman = this.reusesBlocks || random.chance(0.3);
  }

  block(fields: readonly Field[]): Buffer {
    const parts: Buffer[] = [];
    if (this.#random.chance(0.02)) {
      this.#size = this.#random.pick([0, 100, this.#random.below(TABLE), TABLE]);
      parts.push(tableSize(this.#size));
      this.#evict();
    }
    for (const field of fields) parts.push(this.#field(field));
    return Buffer.concat(parts);
  }

  #field(field: Field): Buffer {
    const [name, value] = field;
    const known = this.#find((other) => other[0] === name && other[1] === value);
    if (known > 0 && !this.#random.chance(this.reusesBlocks ? 0.3 : 0.05)) return indexed(known);
    const unnamed = !this.reusesBlocks && this.#random.chance(0.1);
    const index = unnamed ? 0 : this.#find((other) => other[0] === name);
    const kind = this.reusesBlocks ? (name === "x-text" ? 0 : 2) : this.#random.below(4);
    const head = kind < 2 ? integer(index, 6, 0x40) : integer(index, 4, kind === 2 ? 0 : 0x10);
    const text = [...(index === 0 ? [this.#string(name)] : []), this.#string(value)];
    if (kind < 2) this.#insert(field);
    return Buffer.concat([head, ...text]);
  }

  #find(fits: (field: Field) => boolean): number {
    const inStatic = STATIC_TABLE.findIndex(fits);
    if (inStatic >= 0) return inStatic + 1;
    const inDynamic = this.#table.findIndex(fits);
    return inDynamic < 0 ? 0 : STATIC_TABLE.length + inDynamic + 1;
  }

  #string(text: string): Buffer {
    const printable = !this.#noHuffman && text.length < 200 && /^[ -~]*$/.test(text);
    return printable && this.#random.chance(0.5) ? huffmanString(text) : rawString(text);
  }

  #insert(field: Field): void {
    this.#table.unshift(field);
    this.#used += field[0].length + field[1].length + OVERHEAD;
    this.#evict();
  }

  #evict(): void {
    while (this.#used > this.#size) {
      const [name, value] = this.#table.pop() ?? ["", ""];
      this.#used -= name.length + value.length + OVERHEAD;
    }
  }
}
