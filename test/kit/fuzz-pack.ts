// Header blocks as various clients might write them: every kind of literal, both tables, Huffman's code or not, and
// updates of the table's size, all as the dice fall and all valid.

import type { Dice } from "./fuzz-dice.ts";
import { type Field, indexed, integer, plain, STATIC, squeezed, tableSize } from "./hpack-raw.ts";

/** The size of table that the server says, and that everybody begins with. */
const TABLE = 4_096;
const OVERHEAD = 32;

export class Packer {
  readonly #dice: Dice;
  readonly #plain: boolean;
  /** Only `x-text` enters the table: so the same bytes come again and mean something else. */
  readonly lean: boolean;
  #table: Field[] = [];
  #used = 0;
  #size = TABLE;

  constructor(dice: Dice) {
    this.#dice = dice;
    this.lean = dice.hits(0.15);
    this.#plain = this.lean || dice.hits(0.3);
  }

  block(fields: readonly Field[]): Buffer {
    const parts: Buffer[] = [];
    if (this.#dice.hits(0.02)) {
      this.#size = this.#dice.pick([0, 100, this.#dice.below(TABLE), TABLE]);
      parts.push(tableSize(this.#size));
      this.#evict();
    }
    for (const field of fields) parts.push(this.#field(field));
    return Buffer.concat(parts);
  }

  #field(field: Field): Buffer {
    const [name, value] = field;
    const whole = this.#find((other) => other[0] === name && other[1] === value);
    if (whole > 0 && !this.#dice.hits(this.lean ? 0.3 : 0.05)) return indexed(whole);
    const unnamed = !this.lean && this.#dice.hits(0.1);
    const index = unnamed ? 0 : this.#find((other) => other[0] === name);
    const kind = this.lean ? (name === "x-text" ? 0 : 2) : this.#dice.below(4);
    const head = kind < 2 ? integer(index, 6, 0x40) : integer(index, 4, kind === 2 ? 0 : 0x10);
    const text = [...(index === 0 ? [this.#text(name)] : []), this.#text(value)];
    if (kind < 2) this.#keep(field);
    return Buffer.concat([head, ...text]);
  }

  #find(fits: (field: Field) => boolean): number {
    const known = STATIC.findIndex(fits);
    if (known >= 0) return known + 1;
    const own = this.#table.findIndex(fits);
    return own < 0 ? 0 : STATIC.length + own + 1;
  }

  #text(text: string): Buffer {
    const printable = !this.#plain && text.length < 200 && /^[ -~]*$/.test(text);
    return printable && this.#dice.hits(0.5) ? squeezed(text) : plain(text);
  }

  #keep(field: Field): void {
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
