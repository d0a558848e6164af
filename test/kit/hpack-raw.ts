// Header blocks by hand (RFC 7541), right ones and wrong ones: what a test writes stands on the wire as it was
// written. It shares nothing with the code under test, so that a mistake there is not made twice.

/** Names and values of the static table (Appendix A), from index 1 on. */
export const STATIC: readonly (readonly [name: string, value: string])[] = [
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

/** One field: name and value, a character each byte. */
export type Field = readonly [name: string, value: string];

/** An integer behind the `bits` low bits of a first byte that has `high` above them (§5.1). */
export function integer(value: number, bits: number, high = 0): Buffer {
  const most = 2 ** bits - 1;
  if (value < most) return Buffer.of(high | value);
  const bytes = [high | most];
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** A string as it is, without Huffman (§5.2). */
export function plain(text: string): Buffer {
  return Buffer.concat([integer(text.length, 7), Buffer.from(text, "latin1")]);
}

/** The same in Huffman's code; for printable text (§5.2). */
export function squeezed(text: string): Buffer {
  let bits = "";
  for (const character of text) bits += BITS.get(character) ?? "";
  const bytes = Buffer.alloc(Math.ceil(bits.length / 8), 0xff);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = Number.parseInt(bits.slice(at * 8, at * 8 + 8).padEnd(8, "1"), 2);
  }
  return Buffer.concat([integer(bytes.length, 7, 0x80), bytes]);
}

/** An entry of the tables by its number (§6.1). */
export const indexed = (index: number): Buffer => integer(index, 7, 0x80);

/** A field that does not enter the table (§6.2.2), or that enters it (§6.2.1). */
export function literal([name, value]: Field, keep = false): Buffer {
  return Buffer.concat([Buffer.of(keep ? 0x40 : 0), plain(name), plain(value)]);
}

/** The new size of the dynamic table (§6.3). */
export const tableSize = (size: number): Buffer => integer(size, 5, 0x20);

/** A block of literals that leave the table alone. */
export const block = (fields: readonly Field[]): Buffer =>
  Buffer.concat(fields.map((field) => literal(field)));

/** Bits of the codes of " " to "~" (Appendix B). Codes are canonical, so these are all that printable text needs. */
const CODE_BITS = [
  ...[6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8],
  ...[15, 6, 12, 10, 13, 6, ...Array<number>(22).fill(7), 8, 7, 8, 13, 19, 13, 14, 6, 15],
  ...[5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13],
];

/** Characters by their code, spelled in bits. */
const CODES: ReadonlyMap<string, string> = (() => {
  const codes = new Map<string, string>();
  // Symbol 0 is the one other with a code as short as theirs.
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

function inflate(bytes: Uint8Array): string {
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
  if (!/^1{0,7}$/.test(bits)) throw new Error(`a Huffman string ends with bits ${bits}`);
  return text;
}

/** Reads what a server sends; throws where it is not HPACK. One for each connection. */
export class Unpacker {
  #table: Field[] = [];
  #at = 0;
  #bytes: Uint8Array = new Uint8Array();
  #most: number;
  #size: number;
  /** The smallest size that the server was told since the last block: the next one must say so (§4.2). */
  #owed = Number.POSITIVE_INFINITY;

  /** `most`: the table size that the server was told, or the first one. */
  constructor(most = 4_096) {
    this.#most = most;
    this.#size = most;
  }

  /** The server has taken note of this size. */
  limit(most: number): void {
    this.#most = most;
    if (most < this.#size) this.#owed = Math.min(this.#owed, most);
  }

  unpack(bytes: Uint8Array): readonly Field[] {
    this.#bytes = bytes;
    this.#at = 0;
    const fields: Field[] = [];
    if (this.#owed < Number.POSITIVE_INFINITY && (bytes[0] ?? 0) >> 5 !== 1) {
      throw new Error(`no update of the table's size to ${this.#owed}, which is ${this.#size}`);
    }
    while (this.#at < bytes.length) {
      const first = bytes[this.#at] ?? 0;
      if (first >= 0x80) fields.push(this.#entry(this.#integer(7)));
      else if (first >= 0x40) fields.push(this.#keep(this.#literal(6)));
      else if (first >= 0x20 && fields.length === 0) this.#resize(this.#integer(5));
      else if (first >= 0x20) throw new Error("a size update behind fields");
      else fields.push(this.#literal(4));
    }
    return fields;
  }

  #integer(bits: number): number {
    const most = 2 ** bits - 1;
    let value = this.#byte() & most;
    if (value < most) return value;
    for (let shift = 1; ; shift *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new Error("a header block ends in the middle");
    return byte;
  }

  #text(): string {
    const huffman = (this.#bytes[this.#at] ?? 0) >= 0x80;
    const length = this.#integer(7);
    const bytes = this.#bytes.subarray(this.#at, this.#at + length);
    if (bytes.length < length) throw new Error("a string is longer than its header block");
    this.#at += length;
    return huffman ? inflate(bytes) : Buffer.from(bytes).toString("latin1");
  }

  #literal(bits: number): Field {
    const index = this.#integer(bits);
    const name = index === 0 ? this.#text() : this.#entry(index)[0];
    return [name, this.#text()];
  }

  #entry(index: number): Field {
    const found = STATIC[index - 1] ?? this.#table[index - 1 - STATIC.length];
    if (found === undefined) throw new Error(`entry ${index} is in no table`);
    return found;
  }

  #keep(field: Field): Field {
    this.#table.unshift(field);
    this.#evict();
    return field;
  }

  #resize(size: number): void {
    const most = Math.min(this.#most, this.#owed);
    if (size > most) throw new Error(`a table of ${size} bytes where ${most} is most`);
    this.#owed = Number.POSITIVE_INFINITY;
    this.#size = size;
    this.#evict();
  }

  #evict(): void {
    const weight = ([name, value]: Field) => name.length + value.length + 32;
    let all = this.#table.reduce((sum, field) => sum + weight(field), 0);
    while (all > this.#size) all -= weight(this.#table.pop() ?? ["", ""]);
  }
}
