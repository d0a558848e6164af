// A small HPACK encoder and decoder (RFC 7541) for tests, which can also write invalid field blocks. It shares no
// code with Sluice's implementation, so that an error there is not repeated here.

/** The static table (Appendix A), without the unused index 0. */
export const STATIC_TABLE: readonly (readonly [name: string, value: string])[] = [
  [":authority", ""],
  ...([":method"] as const).flatMap((name) => both(name, "GET", "POST")),
  ...both(":path", "/", "/index.html"),
  ...both(":scheme", "http", "https"),
  ...both(":status", "200", "204", "206", "304", "400", "404", "500"),
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ..."accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control"
    .split(" ")
    .flatMap((name) => both(name, "")),
  ..."content-disposition content-encoding content-language content-length content-location content-range"
    .split(" ")
    .flatMap((name) => both(name, "")),
  ..."content-type cookie date etag expect expires from host if-match if-modified-since if-none-match"
    .split(" ")
    .flatMap((name) => both(name, "")),
  ..."if-range if-unmodified-since last-modified link location max-forwards proxy-authenticate"
    .split(" ")
    .flatMap((name) => both(name, "")),
  ..."proxy-authorization range referer refresh retry-after server set-cookie strict-transport-security"
    .split(" ")
    .flatMap((name) => both(name, "")),
  ..."transfer-encoding user-agent vary via www-authenticate"
    .split(" ")
    .flatMap((name) => both(name, "")),
];

function both(name: string, ...values: readonly string[]): readonly (readonly [string, string])[] {
  return values.map((value) => [name, value]);
}

/** Name and value of a field, one character per byte. */
export type Field = readonly [name: string, value: string];

/** An integer with a prefix of `bits` bits, below the bits `high` of the first byte (§5.1). */
export function integer(value: number, bits: number, high = 0): Buffer {
  const max = 2 ** bits - 1;
  if (value < max) return Buffer.of(high | value);
  const bytes = [high | max];
  let rest = value - max;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** A string literal without Huffman coding (§5.2). */
export function rawString(text: string): Buffer {
  return Buffer.concat([integer(text.length, 7), Buffer.from(text, "latin1")]);
}

/** A string literal with Huffman coding; printable ASCII only (§5.2). */
export function huffmanString(text: string): Buffer {
  let bits = "";
  for (const character of text) bits += BITS.get(character) ?? "";
  const bytes = Buffer.alloc(Math.ceil(bits.length / 8), 0xff);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = Number.parseInt(bits.slice(at * 8, at * 8 + 8).padEnd(8, "1"), 2);
  }
  return Buffer.concat([integer(bytes.length, 7, 0x80), bytes]);
}

/** An indexed field (§6.1). */
export const indexed = (index: number): Buffer => integer(index, 7, 0x80);

/** A literal field without indexing (§6.2.2), or with incremental indexing (§6.2.1). */
export function literal([name, value]: Field, indexing = false): Buffer {
  return Buffer.concat([Buffer.of(indexing ? 0x40 : 0), rawString(name), rawString(value)]);
}

/** A dynamic table size update (§6.3). */
export const tableSize = (size: number): Buffer => integer(size, 5, 0x20);

/** A field block of literals without indexing. */
export const block = (fields: readonly Field[]): Buffer =>
  Buffer.concat(fields.map((field) => literal(field)));

/** Code lengths of " " to "~" in bits (Appendix B). The code is canonical, so the lengths determine it. */
const CODE_BITS = [
  6,
  10,
  10,
  12,
  13,
  6,
  8,
  11,
  10,
  10,
  8,
  11,
  8,
  6,
  6,
  6,
  5,
  5,
  5,
  6,
  6,
  6,
  6,
  6,
  6,
  6,
  7,
  8,
  15,
  6,
  12,
  10,
  13,
  6,
  ...Array<number>(22).fill(7),
  8,
  7,
  8,
  13,
  19,
  13,
  14,
  6,
  15,
  5,
  6,
  5,
  6,
  5,
  6,
  6,
  6,
  5,
  7,
  7,
  6,
  6,
  6,
  5,
  6,
  7,
  6,
  5,
  5,
  6,
  7,
  7,
  7,
  7,
  7,
  15,
  11,
  14,
  13,
];

/** Characters by their code, written as a string of bits. */
const CODES: ReadonlyMap<string, string> = (() => {
  const codes = new Map<string, string>();
  // Symbol 0 is the only other one whose code is as short as one of these.
  const symbols = [[0, 13] as const, ...CODE_BITS.map((bits, at) => [32 + at, bits] as const)];
  let next = 0;
  let length = 0;
  for (const [symbol, bits] of symbols.sort((a, b) => a[1] - b[1] || a[0] - b[0])) {
    next *= 2 ** (bits - length);
    length = bits;
    codes.set(next.toString(2).padStart(bits, "0"), String.fromCharCode(symbol));
    next += 1;
  }
  return codes;
})();

const BITS: ReadonlyMap<string, string> = new Map([...CODES].map(([bits, text]) => [text, bits]));

/** A Huffman string may be valid, and has a character that this module knows no code of. */
export class UnknownCharacter extends Error {}

function decodeHuffman(bytes: Uint8Array): string {
  let text = "";
  let bits = "";
  for (const byte of bytes) {
    for (const bit of byte.toString(2).padStart(8, "0")) {
      bits += bit;
      const found = CODES.get(bits);
      if (found === undefined) continue;
      text += found;
      bits = "";
    }
  }
  // The longest code of a printable character has 15 bits, so these begin with the code of another one.
  if (bits.length > 15) throw new UnknownCharacter(`no printable character begins ${bits}`);
  if (!/^1{0,7}$/.test(bits)) throw new Error(`a Huffman string ends with bits ${bits}`);
  return text;
}

/**
 * Decodes the field blocks of one connection; throws on any violation of RFC 7541, and beyond two bounds of Sluice: integers
 * have at most four bytes after their prefix, and a block at most two table size updates.
 */
export class HpackDecoder {
  #table: Field[] = [];
  #at = 0;
  #bytes: Uint8Array = new Uint8Array();
  #maxSize: number;
  #size: number;
  /**
   * Smallest table size announced to the encoder since the last block, which must begin with an update to it (§4.2).
   */
  #updateDue = Number.POSITIVE_INFINITY;

  /** `maxSize` is the announced SETTINGS_HEADER_TABLE_SIZE. */
  constructor(maxSize = 4_096) {
    this.#maxSize = maxSize;
    this.#size = maxSize;
  }

  /** The encoder has acknowledged this SETTINGS_HEADER_TABLE_SIZE. */
  limitTable(maxSize: number): void {
    this.#maxSize = maxSize;
    if (maxSize < this.#size) this.#updateDue = Math.min(this.#updateDue, maxSize);
  }

  decode(bytes: Uint8Array): readonly Field[] {
    this.#bytes = bytes;
    this.#at = 0;
    const fields: Field[] = [];
    if (this.#updateDue < Number.POSITIVE_INFINITY && (bytes[0] ?? 0) >> 5 !== 1) {
      throw new Error(
        `no table size update to ${this.#updateDue}; the table has ${this.#size} bytes`,
      );
    }
    let updates = 0;
    while (this.#at < bytes.length) {
      const first = bytes[this.#at] ?? 0;
      if (first >= 0x80) fields.push(this.#entry(this.#integer(7)));
      else if (first >= 0x40) fields.push(this.#insert(this.#literal(6)));
      else if (first >= 0x20 && fields.length === 0) {
        if (++updates > 2) throw new Error("more than two table size updates");
        this.#resize(this.#integer(5));
      } else if (first >= 0x20) throw new Error("a table size update after fields");
      else fields.push(this.#literal(4));
    }
    return fields;
  }

  #integer(bits: number): number {
    const max = 2 ** bits - 1;
    let value = this.#byte() & max;
    if (value < max) return value;
    for (let shift = 1; ; shift *= 128) {
      if (shift === 128 ** 4) throw new Error("an integer is too long");
      const byte = this.#byte();
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new Error("the field block is truncated");
    return byte;
  }

  #string(): string {
    const huffman = (this.#bytes[this.#at] ?? 0) >= 0x80;
    const length = this.#integer(7);
    const bytes = this.#bytes.subarray(this.#at, this.#at + length);
    if (bytes.length < length) throw new Error("a string is longer than its field block");
    this.#at += length;
    return huffman ? decodeHuffman(bytes) : Buffer.from(bytes).toString("latin1");
  }

  #literal(bits: number): Field {
    const index = this.#integer(bits);
    const name = index === 0 ? this.#string() : this.#entry(index)[0];
    return [name, this.#string()];
  }

  #entry(index: number): Field {
    const found = STATIC_TABLE[index - 1] ?? this.#table[index - 1 - STATIC_TABLE.length];
    if (found === undefined) throw new Error(`index ${index} is beyond both tables`);
    return found;
  }

  #insert(field: Field): Field {
    this.#table.unshift(field);
    this.#evict();
    return field;
  }

  #resize(size: number): void {
    const max = Math.min(this.#maxSize, this.#updateDue);
    if (size > max) throw new Error(`table size update to ${size} above the limit ${max}`);
    this.#updateDue = Number.POSITIVE_INFINITY;
    this.#size = size;
    this.#evict();
  }

  #evict(): void {
    const weight = ([name, value]: Field) => name.length + value.length + 32;
    let all = this.#table.reduce((sum, field) => sum + weight(field), 0);
    while (all > this.#size) all -= weight(this.#table.pop() ?? ["", ""]);
  }
}
