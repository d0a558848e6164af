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
export interface MemberName {
  readonly bytes: Uint8Array;
  readonly field: number;
}

/** From `snake_case` names to field numbers, which are 1 to 31. Adds the camelCase spelling of each name. */
export function memberNames(names: Readonly<Record<string, number>>): readonly MemberName[] {
  const all: MemberName[] = [];
  for (const [name, field] of Object.entries(names)) {
    const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    for (const each of new Set([name, camel])) all.push({ bytes: Buffer.from(each), field });
  }
  return all;
}

/** A position in a JSON text. Once a method has returned false, the position is meaningless. */
export class JsonScanner {
  bytes: Buffer;
  #at = 0;
  /** Span of the last string, number or name, without quotes. */
  start = 0;
  end = 0;
  /** Bitwise or of all bytes in strings so far. If it is above 0x7f, the caller must check that the text is UTF-8. */
  combinedBytes = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  reset(bytes: Buffer): void {
    this.bytes = bytes;
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

  /** Whether only white space is left. */
  atEnd(): boolean {
    this.#next();
    return this.#at === this.bytes.length;
  }

  /** Takes the name of a member and the colon. */
  name(): boolean {
    return this.text() && this.#take(COLON);
  }

  /** Field number of the name that was read last; 0 when it is unknown. */
  field(names: readonly MemberName[]): number {
    const length = this.end - this.start;
    for (let at = 0; at < names.length; at++) {
      const known = names[at];
      if (known?.bytes.length === length && this.matches(known.bytes)) return known.field;
    }
    return 0;
  }

  /** Whether the last span has exactly these bytes. */
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
    let at = start;
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
