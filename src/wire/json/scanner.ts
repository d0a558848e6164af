// A fast scanner for JSON as programs usually write it. It finds spans of bytes and creates no objects. Anything
// unusual (an escape, a null, a broken token) makes a method return false: then the general parser must read the text.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const MINUS = 0x2d;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const SPACE = 0x20;
const ZERO = 0x30;
const NINE = 0x39;
const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Numbers with more digits may not fit into an int64. */
const MAX_DIGITS = 18;

/** One spelling of a member's name, and its field number. */
interface MemberName {
  readonly bytes: Uint8Array;
  readonly field: number;
}

/** The names of a message's members by their length. */
export type MemberNames = readonly (readonly MemberName[])[];

/** From `snake_case` names to field numbers, which are 1 to 31. Adds the camelCase spelling of each name. */
export function memberNames(names: Readonly<Record<string, number>>): MemberNames {
  const all: MemberName[][] = [];
  for (const [name, field] of Object.entries(names)) {
    const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    for (const each of new Set([name, camel])) {
      const bytes = Buffer.from(each);
      all[bytes.length] = [...(all[bytes.length] ?? []), { bytes, field }];
    }
  }
  return Array.from(all, (names) => names ?? []);
}

/** True if one of four bytes is a quote, a backslash or a control character. */
function hasSpecialByte(word: number): boolean {
  const quote = word ^ 0x22222222;
  const backslash = word ^ 0x5c5c5c5c;
  const found =
    ((quote - 0x01010101) & ~quote) |
    ((backslash - 0x01010101) & ~backslash) |
    ((word - 0x20202020) & ~word);
  return (found & 0x80808080) !== 0;
}

/** A position in a JSON text. Once a method has returned false, the position is meaningless. */
export class JsonScanner {
  bytes: Buffer;
  /** A view of the whole ArrayBuffer behind the bytes, and their offset in it. */
  memory: DataView;
  offset: number;
  #at = 0;
  /** Span of the last string, number or name, without quotes. */
  start = 0;
  end = 0;
  /** Bitwise or of all bytes in strings so far. If it is above 0x7f, the caller must check that the text is UTF-8. */
  combinedBytes = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.memory = new DataView(bytes.buffer);
    this.offset = bytes.byteOffset;
  }

  /** `memory` is a view of the whole ArrayBuffer behind the bytes. */
  reset(bytes: Buffer, memory: DataView): void {
    this.bytes = bytes;
    this.memory = memory;
    this.offset = bytes.byteOffset;
    this.#at = 0;
    this.combinedBytes = 0;
  }

  /** Skips white space and returns the next byte; 0 at the end. */
  #next(): number {
    const { bytes } = this;
    let at = this.#at;
    let byte = bytes[at] ?? 0;
    while (byte === SPACE || byte === LINE_FEED || byte === TAB || byte === CARRIAGE_RETURN) {
      byte = bytes[++at] ?? 0;
    }
    this.#at = at;
    return byte;
  }

  #take(byte: number): boolean {
    // Usually there is no white space.
    if (this.bytes[this.#at] !== byte && this.#next() !== byte) return false;
    this.#at++;
    return true;
  }

  /** Takes the opening brace of an object. */
  open(): boolean {
    return this.#take(OPEN);
  }

  /** Takes a comma: whether another member follows. */
  more(): boolean {
    return this.#take(COMMA);
  }

  close(): boolean {
    return this.#take(CLOSE);
  }

  /** True if only white space is left. */
  atEnd(): boolean {
    this.#next();
    return this.#at === this.bytes.length;
  }

  /** Takes the name of a member and the colon. */
  name(): boolean {
    return this.text() && this.#take(COLON);
  }

  /** Field number of the name that was read last; 0 when it is unknown. */
  field(names: MemberNames): number {
    const length = this.end - this.start;
    const likely = length < names.length ? names[length] : undefined;
    if (likely === undefined) return 0;
    for (let at = 0; at < likely.length; at++) {
      const known = likely[at];
      if (known !== undefined && this.matches(known.bytes)) return known.field;
    }
    return 0;
  }

  /** True if the last span has exactly these bytes. */
  matches(expected: Uint8Array): boolean {
    const { bytes, start } = this;
    const { length } = expected;
    if (this.end - start !== length) return false;
    for (let at = 0; at < length; at++) if (bytes[start + at] !== expected[at]) return false;
    return true;
  }

  /** Takes a string without escapes. */
  text(): boolean {
    const { bytes } = this;
    if (bytes[this.#at] !== QUOTE && this.#next() !== QUOTE) return false;
    const start = this.#at + 1;
    let at = this.#ordinaryEnd(start);
    let { combinedBytes: seen } = this;
    for (let byte = bytes[at] ?? 0; byte !== QUOTE; byte = bytes[++at] ?? 0) {
      if (byte === BACKSLASH || byte < SPACE) return false;
      seen |= byte;
    }
    this.combinedBytes = seen;
    this.start = start;
    this.end = at;
    this.#at = at + 1;
    return true;
  }

  /**
   * Goes on four bytes at a time while none of them is a quote, a backslash or a control character. Returns a place before
   * the first one, if there is one.
   */
  #ordinaryEnd(start: number): number {
    const { memory, offset } = this;
    const last = offset + this.bytes.length - 4;
    let at = offset + start;
    let seen = 0;
    for (; at <= last; at += 4) {
      const word = memory.getInt32(at, true);
      if (hasSpecialByte(word)) break;
      seen |= word;
    }
    this.combinedBytes |= (seen | (seen >>> 8) | (seen >>> 16) | (seen >>> 24)) & 0xff;
    return at - offset;
  }

  /** Takes an integer in its shortest form, with or without quotes; not `-0`. */
  integer(): boolean {
    const quoted = this.#next() === QUOTE;
    if (quoted) this.#at++;
    const { bytes } = this;
    this.start = this.#at;
    let at = bytes[this.#at] === MINUS ? this.#at + 1 : this.#at;
    const first = at;
    for (let byte = bytes[at] ?? 0; byte >= ZERO && byte <= NINE; byte = bytes[++at] ?? 0);
    const digits = at - first;
    if (digits === 0 || digits > MAX_DIGITS) return false;
    if (bytes[first] === ZERO && (digits > 1 || first > this.start)) return false;
    this.end = at;
    this.#at = at;
    return !quoted || this.#take(QUOTE);
  }

  /** The last span as a number. It must be a short integer without a sign. */
  number(): number {
    const { bytes, end } = this;
    let value = 0;
    for (let at = this.start; at < end; at++) value = value * 10 + (bytes[at] ?? 0) - ZERO;
    return value;
  }

  /** Takes one of two keywords that differ in their first byte: true for the first, undefined for neither. */
  keyword(one: Uint8Array, other: Uint8Array): boolean | undefined {
    const first = this.#next() === one[0];
    const expected = first ? one : other;
    this.start = this.#at;
    this.end = Math.min(this.#at + expected.length, this.bytes.length);
    if (!this.matches(expected)) return undefined;
    this.#at = this.end;
    return first;
  }
}
