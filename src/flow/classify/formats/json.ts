// Reads values of JSON documents. The platform's parser only validates the text, and members are located in the source. So no
// name from outside is looked up in an object, and a bug of V8 14.6, which confuses the name `x"` with an earlier `x\`, has
// no effect. Size and depth are bounded, and nothing recurses.

import { MALFORMED, TOO_LARGE, type Unreadable } from "../unreadable.ts";
import type { Segment } from "./pointer.ts";

/** In characters; as large as the largest body that `api` accepts. */
const MAX_LENGTH = 1 << 20;
const MAX_DEPTH = 64;

export interface Json {
  /**
   * The value at a pointer: a string as it is, a number in its shortest form, anything else as compact JSON; undefined when
   * there is none.
   */
  text(pointer: readonly Segment[]): string | undefined;
}

const BYTE_ORDER_MARK = "\ufeff";

/** Parses a text. A byte-order mark is ignored (RFC 8259 §8.1). */
export function parseJson(text: string): Json | Unreadable {
  if (text.length > MAX_LENGTH) return TOO_LARGE;
  const source = text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  try {
    JSON.parse(source);
  } catch {
    return MALFORMED;
  }
  if (deeperThan(source, MAX_DEPTH)) return TOO_LARGE;
  return { text: (pointer) => textAt(source, locate(source, pointer)) };
}

// From here on the source is valid JSON, which keeps the functions short.

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

function deeperThan(source: string, limit: number): boolean {
  if (source.length <= 2 * limit) return false;
  let depth = 0;
  for (let at = 0; at < source.length; at++) {
    const code = source.charCodeAt(at);
    if (code === QUOTE) at = endOfString(source, at) - 1;
    else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      if (++depth > limit) return true;
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
  }
  return false;
}

const NOWHERE = -1;

/** Index at which the value of the pointer starts. */
function locate(source: string, pointer: readonly Segment[]): number {
  let at = skipSpace(source, 0);
  for (const { name, index } of pointer) {
    const code = source.charCodeAt(at);
    if (code === OPEN_OBJECT) at = locateMember(source, at, name);
    else if (code === OPEN_ARRAY && index >= 0) at = locateElement(source, at, index);
    else return NOWHERE;
    if (at === NOWHERE) return NOWHERE;
  }
  return at;
}

function textAt(source: string, start: number): string | undefined {
  if (start === NOWHERE) return undefined;
  // All ways to write a number give one text, so that callers cannot choose among limiter keys.
  if (startsNumber(source.charCodeAt(start)))
    return String(Number(source.slice(start, endOfScalar(source, start))));
  const isString = source.charCodeAt(start) === QUOTE;
  const text = isString
    ? stringAt(source, start, endOfString(source, start))
    : compact(source, start);
  return text.length * 2 < source.length ? detached(text) : text;
}

/** A copy of a part of a string. V8 keeps a part as a view, so a limiter key would keep the whole body in memory. */
function detached(part: string): string {
  return Buffer.from(part).toString();
}

/** Position of the value of a member. The last of several members with one name counts, as in common parsers. */
function locateMember(source: string, object: number, name: string): number {
  let found = NOWHERE;
  let at = skipSpace(source, object + 1);
  while (source.charCodeAt(at) === QUOTE) {
    const end = endOfString(source, at);
    const value = skipSpace(source, skipSpace(source, end) + 1);
    if (stringAt(source, at, end) === name) found = value;
    at = skipSpace(source, endOfValue(source, value));
    if (source.charCodeAt(at) === COMMA) at = skipSpace(source, at + 1);
  }
  return found;
}

function locateElement(source: string, array: number, index: number): number {
  let at = skipSpace(source, array + 1);
  if (source.charCodeAt(at) === CLOSE_ARRAY) return NOWHERE;
  for (let passed = 0; passed < index; passed++) {
    at = skipSpace(source, endOfValue(source, at));
    if (source.charCodeAt(at) !== COMMA) return NOWHERE;
    at = skipSpace(source, at + 1);
  }
  return at;
}

function stringAt(source: string, start: number, end: number): string {
  const raw = source.slice(start + 1, end - 1);
  return raw.includes("\\") ? String(JSON.parse(source.slice(start, end))) : raw;
}

/** The value at `start` as JSON without white space and needless escapes. */
function compact(source: string, start: number): string {
  const end = endOfValue(source, start);
  let out = "";
  let kept = start;
  let at = start;
  while (at < end) {
    const code = source.charCodeAt(at);
    if (isSpace(code)) {
      out += source.slice(kept, at);
      at = skipSpace(source, at);
      kept = at;
    } else if (code === QUOTE) {
      const close = endOfString(source, at);
      if (source.slice(at, close).includes("\\")) {
        out += source.slice(kept, at) + JSON.stringify(stringAt(source, at, close));
        kept = close;
      }
      at = close;
    } else at++;
  }
  return out + source.slice(kept, end);
}

function endOfValue(source: string, start: number): number {
  const first = source.charCodeAt(start);
  if (first === QUOTE) return endOfString(source, start);
  if (first !== OPEN_ARRAY && first !== OPEN_OBJECT) return endOfScalar(source, start);
  let depth = 0;
  let at = start;
  do {
    const code = source.charCodeAt(at);
    if (code === QUOTE) at = endOfString(source, at);
    else {
      if (code === OPEN_ARRAY || code === OPEN_OBJECT) depth++;
      else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
      at++;
    }
  } while (depth > 0 && at < source.length);
  return at;
}

/** `start` is the opening quote; the result is the index after the closing one. */
function endOfString(source: string, start: number): number {
  let at = start + 1;
  while (at < source.length) {
    const code = source.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    at += code === BACKSLASH ? 2 : 1;
  }
  return source.length;
}

/** End of a number, `true`, `false` or `null`. */
function endOfScalar(source: string, start: number): number {
  let at = start + 1;
  while (at < source.length && !endsScalar(source.charCodeAt(at))) at++;
  return at;
}

function startsNumber(code: number): boolean {
  return code === MINUS || (code >= DIGIT_0 && code <= DIGIT_9);
}

function endsScalar(code: number): boolean {
  return isSpace(code) || code === COMMA || code === CLOSE_ARRAY || code === CLOSE_OBJECT;
}

function skipSpace(source: string, start: number): number {
  let at = start;
  while (isSpace(source.charCodeAt(at))) at++;
  return at;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}
