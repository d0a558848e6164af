// W3C baggage: labels that travel with requests in a header. Clients choose it, so one pass over its characters validates
// it and notes the offsets of its members. A member that nothing reads costs neither an object nor a string.

import { isReserved } from "#flow/label.ts";

/** Limits of the W3C specification, which other implementations enforce. The first one is only the default. */
export const MAX_BAGGAGE_BYTES = 8_192;
export const MAX_MEMBER = 4_096;
export const MAX_MEMBERS = 180;

/** Offsets of a member in the header, without white space around its parts. `END` is behind its properties. */
const OFFSETS = 5;
const KEY_START = 0;
const KEY_END = 1;
const VALUE_START = 2;
const VALUE_END = 3;
const END = 4;

/** The members of a header that is well-formed and within the limits. */
export type Baggage = Readonly<BaggageHeader>;

class BaggageHeader {
  readonly #header: string;
  readonly #offsets: readonly number[];

  constructor(header: string, offsets: readonly number[]) {
    this.#header = header;
    this.#offsets = offsets;
  }

  /** Number of members, repeated ones included. */
  get count(): number {
    return this.#offsets.length / OFFSETS;
  }

  key(member: number): string {
    return this.#slice(member, KEY_START, KEY_END);
  }

  /** Percent-decoded once; `+` stays a plus. Invalid UTF-8 becomes U+FFFD. */
  value(member: number): string {
    const text = this.#slice(member, VALUE_START, VALUE_END);
    if (!text.includes("%")) return text;
    const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, "latin1").toString("utf8");
  }

  /** As received, with properties. */
  text(member: number): string {
    return this.#slice(member, KEY_START, END);
  }

  /** The value of a key, of whose members the last one counts. */
  get(key: string): string | undefined {
    for (let member = this.count - 1; member >= 0; member--) {
      const start = this.#at(member, KEY_START);
      if (this.#at(member, KEY_END) - start !== key.length) continue;
      if (this.#header.startsWith(key, start)) return this.value(member);
    }
    return undefined;
  }

  /** True if a member is named `http.*` or `aperture.*`, which callers may not set. */
  get hasReserved(): boolean {
    for (let member = 0; member < this.count; member++) {
      // Most names need no text to tell: reserved ones begin with an "a" or an "h".
      const first = this.#header.charCodeAt(this.#at(member, KEY_START));
      if ((first === LOWER_A || first === LOWER_H) && isReserved(this.key(member))) return true;
    }
    return false;
  }

  #at(member: number, offset: number): number {
    return this.#offsets[member * OFFSETS + offset] ?? 0;
  }

  #slice(member: number, start: number, end: number): string {
    return this.#header.slice(this.#at(member, start), this.#at(member, end));
  }
}

export const NO_BAGGAGE: Baggage = Object.freeze(new BaggageHeader("", []));

/** Reads a header of at most `most` bytes; undefined when any part is malformed or exceeds the limits. */
export function readBaggage(header: string, most = MAX_BAGGAGE_BYTES): Baggage | undefined {
  // The length in UTF-16 units is the length in bytes, because anything beyond ASCII is malformed.
  if (header.length > most) return undefined;
  const offsets: number[] = [];
  if (skipBlanks(header, 0) === header.length) return NO_BAGGAGE;
  const escaped = header.includes("%");
  for (let at = 0; at <= header.length; at++) {
    const end = readMember(header, at, escaped, offsets);
    if (end < 0 || end - at > MAX_MEMBER) return undefined;
    at = end;
  }
  const baggage = new BaggageHeader(header, offsets);
  if (baggage.count > MAX_MEMBERS) {
    const keys = new Set<string>();
    for (let member = 0; member < baggage.count; member++) keys.add(baggage.key(member));
    if (keys.size > MAX_MEMBERS) return undefined;
  }
  return baggage;
}

/** Notes the offsets of the member at `from`, and returns the end of its text: a comma's, or the header's; -1 if it is malformed. */
function readMember(header: string, from: number, escaped: boolean, offsets: number[]): number {
  const keyStart = skipBlanks(header, from);
  const keyEnd = skip(header, keyStart, TOKEN);
  const equals = skipBlanks(header, keyEnd);
  if (keyEnd === keyStart || header.charCodeAt(equals) !== EQUALS) return -1;
  const valueStart = skipBlanks(header, equals + 1);
  const valueEnd = skip(header, valueStart, OCTET);
  if (escaped && !hasGoodEscapes(header, valueStart, valueEnd)) return -1;
  let at = skipBlanks(header, valueEnd);
  while (header.charCodeAt(at) === SEMICOLON) at = skipProperty(header, at + 1);
  if (at < header.length && header.charCodeAt(at) !== COMMA) return -1;
  offsets.push(keyStart, keyEnd, valueStart, valueEnd, skipBlanksBack(header, at));
  return at;
}

/** `key` or `key=value`. An empty property is accepted, as by other implementations. Returns where it ends. */
function skipProperty(header: string, from: number): number {
  const start = skipBlanks(header, from);
  const end = skip(header, start, TOKEN);
  const equals = skipBlanks(header, end);
  if (end === start || header.charCodeAt(equals) !== EQUALS) return equals;
  return skipBlanks(header, skip(header, skipBlanks(header, equals + 1), OCTET));
}

/** White space that HTTP allows (space and tab); other white space is malformed. */
function skipBlanks(header: string, from: number): number {
  // Hardly any header has them.
  return header.charCodeAt(from) <= SPACE ? skip(header, from, BLANK) : from;
}

function skipBlanksBack(header: string, from: number): number {
  let at = from;
  while (at > 0 && is(header, at - 1, BLANK)) at--;
  return at;
}

/** The end of the run of characters of a kind that begins at `from`. */
function skip(header: string, from: number, kind: number): number {
  let at = from;
  while (at < header.length && is(header, at, kind)) at++;
  return at;
}

function hasGoodEscapes(header: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (header.charCodeAt(at) !== PERCENT) continue;
    if (at + 2 >= end) return false;
    if (!is(header, at + 1, HEX) || !is(header, at + 2, HEX)) return false;
    at += 2;
  }
  return true;
}

const SPACE = 0x20;
const PERCENT = 0x25;
const COMMA = 0x2c;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;
const LOWER_A = 0x61;
const LOWER_H = 0x68;

/** Kinds of characters: those of names (RFC 9110 §5.6.2), of values (`baggage-octet`), blanks and hexadecimal digits. */
const TOKEN = 1;
const OCTET = 2;
const BLANK = 4;
const HEX = 8;

const KINDS = Uint8Array.from({ length: 128 }, (_, unit) => {
  const char = String.fromCharCode(unit);
  const token = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(char) ? TOKEN : 0;
  const octet = /[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]/.test(char) ? OCTET : 0;
  const blank = /[ \t]/.test(char) ? BLANK : 0;
  return token | octet | blank | (/[0-9A-Fa-f]/.test(char) ? HEX : 0);
});

function is(header: string, at: number, kind: number): boolean {
  const unit = header.charCodeAt(at);
  return unit < 128 && ((KINDS[unit] ?? 0) & kind) !== 0;
}

/** Returns true for a text that is a valid member name, a token of RFC 9110. */
export function isMemberName(text: string): boolean {
  return text !== "" && skip(text, 0, TOKEN) === text.length;
}
