// Reads JSON as programs mostly write it, by places in its bytes, for requests that are too hot to become
// objects. Whatever is unusual (an escape, a null, a broken token) it leaves to the general reader: it says "no".

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

/** Beyond these digits a number may not be an int64. */
const MOST_DIGITS = 18;

/** The spellings of a member's name, and its number. */
export interface PlainName {
  readonly bytes: Uint8Array;
  readonly field: number;
}

/** From `snake_case` names; adds the camelCase spelling of each. Field numbers are 1 to 31. */
export function plainNames(names: Readonly<Record<string, number>>): readonly PlainName[] {
  const all: PlainName[] = [];
  for (const [name, field] of Object.entries(names)) {
    const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    for (const each of new Set([name, camel])) all.push({ bytes: Buffer.from(each), field });
  }
  return all;
}

/** A place in a JSON text. Its readers say false, and the place means nothing any more, at what is not plain. */
export class PlainJson {
  bytes: Buffer;
  #at = 0;
  /** Of the text, number or name that was read last, without its quotes. */
  start = 0;
  end = 0;
  /** All bytes of texts so far, or-ed: above 0x7f the whole must be checked to be UTF-8. */
  seen = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  begin(bytes: Buffer): void {
    this.bytes = bytes;
    this.#at = 0;
    this.seen = 0;
  }

  /** The next byte that is no blank; 0 at the end. */
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
    // Mostly there are no blanks.
    if (this.bytes[this.#at] !== byte && this.#next() !== byte) return false;
    this.#at++;
    return true;
  }

  /** The begin of an object that is not empty. */
  open(): boolean {
    return this.#take(OPEN);
  }

  /** Whether another member follows. */
  more(): boolean {
    return this.#take(COMMA);
  }

  close(): boolean {
    return this.#take(CLOSE);
  }

  /** Nothing but blanks is left. */
  over(): boolean {
    this.#next();
    return this.#at === this.bytes.length;
  }

  /** The name of a member, up to its value. */
  name(): boolean {
    return this.text() && this.#take(COLON);
  }

  /** The field of the name that was read; 0 when it is none of these. */
  field(names: readonly PlainName[]): number {
    const length = this.end - this.start;
    for (let at = 0; at < names.length; at++) {
      const known = names[at];
      if (known?.bytes.length === length && this.says(known.bytes)) return known.field;
    }
    return 0;
  }

  /** Whether what was read last is just this. */
  says(expected: Uint8Array): boolean {
    const { bytes, start } = this;
    const { length } = expected;
    if (this.end - start !== length) return false;
    for (let at = 0; at < length; at++) if (bytes[start + at] !== expected[at]) return false;
    return true;
  }

  text(): boolean {
    const { bytes } = this;
    if (bytes[this.#at] !== QUOTE && this.#next() !== QUOTE) return false;
    const start = this.#at + 1;
    let at = start;
    let { seen } = this;
    for (let byte = bytes[at] ?? 0; byte !== QUOTE; byte = bytes[++at] ?? 0) {
      if (byte === BACKSLASH || byte < SPACE) return false;
      seen |= byte;
    }
    this.seen = seen;
    this.start = start;
    this.end = at;
    this.#at = at + 1;
    return true;
  }

  /** A whole number in its shortest form, as a number or as text, and not `-0`. */
  whole(): boolean {
    const quoted = this.#next() === QUOTE;
    if (quoted) this.#at++;
    const { bytes } = this;
    this.start = this.#at;
    let at = bytes[this.#at] === MINUS ? this.#at + 1 : this.#at;
    const first = at;
    for (let byte = bytes[at] ?? 0; byte >= ZERO && byte <= NINE; byte = bytes[++at] ?? 0);
    const digits = at - first;
    if (digits === 0 || digits > MOST_DIGITS) return false;
    if (bytes[first] === ZERO && (digits > 1 || first > this.start)) return false;
    this.end = at;
    this.#at = at;
    return !quoted || this.#take(QUOTE);
  }

  /** What was read last, as a number: digits alone, and few. */
  number(): number {
    const { bytes, end } = this;
    let value = 0;
    for (let at = this.start; at < end; at++) value = value * 10 + (bytes[at] ?? 0) - ZERO;
    return value;
  }

  /** Takes one of the words, which are told apart by their first byte: whether it was the first. */
  word(one: Uint8Array, other: Uint8Array): boolean | undefined {
    const first = this.#next() === one[0];
    const expected = first ? one : other;
    this.start = this.#at;
    this.end = Math.min(this.#at + expected.length, this.bytes.length);
    if (!this.says(expected)) return undefined;
    this.#at = this.end;
    return first;
  }
}
