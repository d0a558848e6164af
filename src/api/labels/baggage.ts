// W3C baggage: labels that travel with requests in a header. Clients choose it, so it is read from its end, one member at a
// time, and only as far as something asks. A member that is not read costs nothing.

import { isReserved } from "#flow/label.ts";

/** Limits of other implementations. The first one is only the default. */
export const MAX_BAGGAGE_BYTES = 8_192;
export const MAX_MEMBER = 4_096;
/** Of a longer list, the last ones count. */
export const MAX_MEMBERS = 180;

/** The members of a header that is within its limit. One of them is the current one. */
export class Baggage {
  readonly #header: string;
  /** Called when a member that is read turns out to be malformed. It is passed over. */
  readonly #malformed: () => void;
  /** The end of the members that have not been read yet; below 0 when all have. */
  #end: number;
  #read = 0;
  /** Offsets of the current member, without white space around its parts. `#textEnd` is behind its properties. */
  #keyStart = 0;
  #keyEnd = 0;
  #valueStart = 0;
  #valueEnd = 0;
  #textEnd = 0;

  constructor(header: string, malformed: () => void) {
    this.#header = header;
    this.#malformed = malformed;
    this.#end = header.length;
  }

  /** Makes the last member the next one that `next` moves to. */
  rewind(): void {
    this.#end = this.#header.length;
    this.#read = 0;
  }

  /** Moves to the next well-formed member, from the last one to the first. False when there is none. */
  next(): boolean {
    while (this.#end >= 0 && this.#read < MAX_MEMBERS) {
      const end = this.#end;
      const comma = end === 0 ? -1 : this.#header.lastIndexOf(",", end - 1);
      this.#end = comma;
      this.#read++;
      if (this.#parse(comma + 1, end)) return true;
      // A header without any member is well-formed.
      if (comma >= 0 || this.#read > 1 || skipBlanks(this.#header, 0, end) < end) this.#malformed();
    }
    return false;
  }

  get key(): string {
    return this.#header.slice(this.#keyStart, this.#keyEnd);
  }

  /** Percent-decoded once; `+` stays a plus. Invalid UTF-8 becomes U+FFFD. */
  get value(): string {
    const text = this.#header.slice(this.#valueStart, this.#valueEnd);
    if (!text.includes("%")) return text;
    const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, "latin1").toString("utf8");
  }

  /** As received, with properties. */
  get text(): string {
    return this.#header.slice(this.#keyStart, this.#textEnd);
  }

  /** The value of a key. Of several members with this key the last one counts. */
  get(key: string): string | undefined {
    if (!this.#header.includes(key)) return undefined;
    this.rewind();
    while (this.next()) {
      if (this.#keyEnd - this.#keyStart !== key.length) continue;
      if (this.#header.startsWith(key, this.#keyStart)) return this.value;
    }
    return undefined;
  }

  /** True if a member is named `http.*` or `aperture.*`, which callers may not set. */
  get hasReserved(): boolean {
    if (!this.#header.includes("http.") && !this.#header.includes("aperture.")) return false;
    this.rewind();
    while (this.next()) if (isReserved(this.key)) return true;
    return false;
  }

  /** Notes the offsets of the member between two offsets; false if it is malformed. */
  #parse(from: number, to: number): boolean {
    if (to - from > MAX_MEMBER) return false;
    const header = this.#header;
    const keyStart = skipBlanks(header, from, to);
    const keyEnd = skip(header, keyStart, to, TOKEN);
    const equals = skipBlanks(header, keyEnd, to);
    if (keyEnd === keyStart || equals === to || header.charCodeAt(equals) !== EQUALS) return false;
    const valueStart = skipBlanks(header, equals + 1, to);
    const valueEnd = skipOctets(header, valueStart, to);
    let at = skipBlanks(header, valueEnd, to);
    while (at < to && header.charCodeAt(at) === SEMICOLON) at = skipProperty(header, at + 1, to);
    if (at < to) return false;
    this.#keyStart = keyStart;
    this.#keyEnd = keyEnd;
    this.#valueStart = valueStart;
    this.#valueEnd = valueEnd;
    this.#textEnd = skipBlanksBack(header, to);
    return true;
  }
}

/** `key` or `key=value`. An empty property is accepted, as by other implementations. Returns where it ends. */
function skipProperty(header: string, from: number, to: number): number {
  const start = skipBlanks(header, from, to);
  const end = skip(header, start, to, TOKEN);
  const equals = skipBlanks(header, end, to);
  if (end === start || equals === to || header.charCodeAt(equals) !== EQUALS) return equals;
  return skipBlanks(header, skip(header, skipBlanks(header, equals + 1, to), to, OCTET), to);
}

/** White space that HTTP allows (space and tab); other white space is malformed. */
function skipBlanks(header: string, from: number, to: number): number {
  // Hardly any header has them.
  return from < to && header.charCodeAt(from) <= SPACE ? skip(header, from, to, BLANK) : from;
}

function skipBlanksBack(header: string, from: number): number {
  let at = from;
  while (at > 0 && is(header, at - 1, BLANK)) at--;
  return at;
}

/** The end of the run of characters of a kind that begins at `from`. */
function skip(header: string, from: number, to: number, kind: number): number {
  let at = from;
  while (at < to && is(header, at, kind)) at++;
  return at;
}

/** The end of a value: that of its octets, or the first `%` that no hexadecimal digits follow. */
function skipOctets(header: string, from: number, to: number): number {
  let at = from;
  while (at < to && is(header, at, OCTET)) {
    if (header.charCodeAt(at) !== PERCENT) at++;
    else if (at + 2 < to && is(header, at + 1, HEX) && is(header, at + 2, HEX)) at += 3;
    else break;
  }
  return at;
}

const SPACE = 0x20;
const PERCENT = 0x25;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;

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
  return text !== "" && skip(text, 0, text.length, TOKEN) === text.length;
}
