// Fields of HTML forms (application/x-www-form-urlencoded): in the body of a request, in its query, or in another text.

import { MALFORMED, type Unreadable } from "../unreadable.ts";

const FORM_TYPE = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i;
const OTHER_CHARSET = /;\s*charset\s*=\s*(?!"?utf-?8"?\s*(?:;|$))/i;

/** True if a body with these headers may be a form in UTF-8. One without a type may be, because servers guess the type. */
export function isFormType(type: string | undefined, encoding: string | undefined): boolean {
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return false;
  return type === undefined || (FORM_TYPE.test(type) && !OTHER_CHARSET.test(type));
}

/** The query of a request target; "" without one. */
export function queryOf(target: string): string {
  const [query = ""] = target.split("#", 1);
  const at = query.indexOf("?");
  return at === -1 ? "" : query.slice(at + 1);
}

/**
 * The value of a field; undefined without one. Forms that services read in different ways are unreadable, because clients
 * could use the difference: a repeated field, a second field whose name some services read as the same, and `;`, at which
 * some services split.
 */
export function fieldOf(form: string, name: string): string | Unreadable | undefined {
  if (form.includes(";")) return MALFORMED;
  const wanted = Buffer.from(name);
  let found: string | undefined;
  let equals = -1;
  for (let start = 0; start <= form.length; ) {
    const and = form.indexOf("&", start);
    const end = and === -1 ? form.length : and;
    // Not searched again for each field, so that the time is linear in the length of the text.
    if (equals < start) equals = form.indexOf("=", start);
    if (equals === -1) equals = form.length;
    const nameEnd = Math.min(equals, end);
    const match = matchName(form, start, nameEnd, wanted);
    if (match === "ambiguous") return MALFORMED;
    if (match === "same") {
      const value = decoded(form.slice(nameEnd + 1, end));
      if (value === undefined || found !== undefined) return MALFORMED;
      found = value;
    }
    start = end + 1;
  }
  return found;
}

const PERCENT = 0x25;
const PLUS = 0x2b;
const BLANK = 0x20;
const NUL = 0;
const BRACKET = 0x5b;
const NO_BYTE = -1;

/**
 * Compares an encoded name without decoding it, because most names differ. A name is ambiguous if it equals the wanted one
 * only without its leading blanks, or only up to a blank, a NUL or a bracket.
 */
function matchName(
  form: string,
  start: number,
  end: number,
  wanted: Uint8Array,
): "same" | "ambiguous" | "other" {
  let at = start;
  while (at < end && byteAt(form, at) === BLANK) at += widthAt(form, at);
  const trimmed = at > start;
  for (let index = 0; index < wanted.length; ) {
    if (at >= end) return "other";
    const code = form.charCodeAt(at);
    if (code < 0x80) {
      if (byteAt(form, at) !== wanted[index]) return "other";
      at += widthAt(form, at);
      index++;
      continue;
    }
    const char = String.fromCodePoint(form.codePointAt(at) ?? code);
    for (const byte of Buffer.from(char)) if (byte !== wanted[index++]) return "other";
    at += char.length;
  }
  if (at >= end) return trimmed ? "ambiguous" : "same";
  const next = byteAt(form, at);
  return next === BLANK || next === NUL || next === BRACKET ? "ambiguous" : "other";
}

/** The byte that an encoded character stands for; `NO_BYTE` where % is not followed by two digits. */
function byteAt(form: string, at: number): number {
  const code = form.charCodeAt(at);
  if (code === PLUS) return BLANK;
  if (code !== PERCENT) return code;
  const [high, low] = [digit(form.charCodeAt(at + 1)), digit(form.charCodeAt(at + 2))];
  return high < 0 || low < 0 ? NO_BYTE : high * 16 + low;
}

function widthAt(form: string, at: number): number {
  return form.charCodeAt(at) === PERCENT ? 3 : 1;
}

function digit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Undefined if % is not followed by two digits, or the bytes are not UTF-8, because servers read these differently. */
function decoded(text: string): string | undefined {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
