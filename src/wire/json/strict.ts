// A strict JSON parser for request bodies: the platform's parser, and a pass over the bytes that refuses what it lets
// through (duplicate names, lone surrogates, invalid UTF-8, deep nesting). Text that is not Unicode can be repaired
// instead, for bodies in which the caller's own clients choose the text. Also readers of members by type.

import { isUtf8 } from "node:buffer";
import { Fault } from "#base/fault.ts";
import { asBuffer } from "../protobuf/reader.ts";
import { mixedText } from "./mixed-text.ts";

/** Default maximum nesting of objects and lists. */
export const MAX_DEPTH = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const COLON = 0x3a;
const SPACE = 0x20;

export function invalid(message: string): Fault {
  return new Fault("INVALID_ARGUMENT", message);
}

/** Result of the pass over the bytes. */
interface Scan {
  /** Number of members in all objects, duplicates included: colons outside strings. */
  readonly members: number;
  /** True if a string has a `\uXXXX` escape: the only way to write a lone surrogate. */
  readonly escapes: boolean;
  /** True if the name of a member has an escape. */
  readonly escapedNames: boolean;
  /** True if the body is empty or only white space. */
  readonly blank: boolean;
}

/** A JSON value and its text, for numbers that a double cannot represent. */
export interface Parsed {
  readonly value: unknown;
  readonly text: string;
}

/** The treatment of text that is not Unicode: bytes that are not UTF-8, and escapes of lone surrogates. */
export type BadText = "refuse" | "repair";

/**
 * Parses a body; undefined when it is empty or only white space. Read objects in the result by their own keys only: a
 * member `__proto__` is an own key like any other.
 * @param badText `repair` reads bytes that are not UTF-8 as ISO 8859-1, and puts U+FFFD in the place of lone surrogates
 * @throws Fault INVALID_ARGUMENT
 */
export function parseBody(
  body: Uint8Array,
  maxDepth = MAX_DEPTH,
  badText: BadText = "refuse",
): Parsed | undefined {
  const bytes = asBuffer(body);
  const seen = scan(bytes, maxDepth);
  if (seen.blank) return undefined;
  const utf8 = isUtf8(bytes);
  if (!utf8 && badText === "refuse") throw invalid("the body must be UTF-8");
  const text = utf8 ? bytes.toString("utf8") : mixedText(bytes);
  const value = parseText(text);
  const found: Found = { members: 0, loneSurrogate: false };
  survey(value, seen.escapes, found);
  if (found.loneSurrogate && badText === "refuse") throw invalid("the body has a lone surrogate");
  // With escaped names the parser's count cannot be trusted: V8 14.6 confuses the name `"` with `\` if it has met
  // that one before. No member that is read here has such a name.
  if (seen.escapedNames || (!utf8 && found.members !== seen.members)) {
    if (hasDuplicateName(text, !utf8)) throw invalid("the body names a member twice");
  } else if (found.members !== seen.members) throw invalid("the body names a member twice");
  if (!found.loneSurrogate) return { value, text };
  const repaired = text.replace(ESCAPE, withoutLoneSurrogate);
  return { value: parseText(repaired), text: repaired };
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid("the body is not valid JSON");
  }
}

/** An escape in a string, or two that are a pair of surrogates. */
const ESCAPE = /\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)/g;

function withoutLoneSurrogate(escaped: string): string {
  return escaped.length === "\\ud800".length ? "\\ufffd" : escaped;
}

const REPAIRED = /[\x80-\xff]/;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:]/g;

/**
 * True if an object in a valid JSON text has two members of the same name, after unescaping. With `repaired`, names
 * with characters that may have been other bytes do not count.
 */
function hasDuplicateName(text: string, repaired: boolean): boolean {
  const open: Set<string>[] = [];
  let literal = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (token !== ":") literal = token;
    else {
      const name: string = JSON.parse(literal);
      if (repaired && REPAIRED.test(name)) continue;
      const names = open.at(-1);
      if (names?.has(name)) return true;
      names?.add(name);
    }
  }
  return false;
}

/** Counts members and measures nesting. Everything else is the parser's job. */
function scan(bytes: Buffer, maxDepth: number): Scan {
  const { length } = bytes;
  let depth = 0;
  let members = 0;
  let escapes = false;
  let escaped = false;
  let escapedNames = false;
  let blank = true;
  for (let at = 0; at < length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte > SPACE) blank = false;
    if (byte === QUOTE) {
      escaped = false;
      for (at++; at < length && bytes[at] !== QUOTE; at++) {
        if (bytes[at] !== BACKSLASH) continue;
        escaped = true;
        at++;
        if (bytes[at] === LOWER_U) escapes = true;
      }
    } else if (byte === COLON) {
      members++;
      if (escaped) escapedNames = true;
    } else if (byte === 0x7b || byte === 0x5b) {
      depth++;
      if (depth > maxDepth) throw invalid(`the body is nested deeper than ${maxDepth} levels`);
    } else if (byte === 0x7d || byte === 0x5d) depth--;
  }
  return { members, escapes, escapedNames, blank };
}

/** The result of a walk through a parsed value. */
interface Found {
  members: number;
  loneSurrogate: boolean;
}

/** Counts members, and looks for lone surrogates if `checkText` is set. */
function survey(value: unknown, checkText: boolean, found: Found): void {
  if (typeof value === "string") {
    if (checkText && !value.isWellFormed()) found.loneSurrogate = true;
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) survey(item, checkText, found);
    return;
  }
  const members: Members = value as Members;
  for (const key of Object.keys(members)) {
    if (checkText && !key.isWellFormed()) found.loneSurrogate = true;
    found.members++;
    survey(members[key], checkText, found);
  }
}

/** An object from `parseBody`. Read it by its own keys only. */
export type Members = Readonly<Record<string, unknown>>;

/** Field numbers, below 32, by member name in both spellings. */
export type FieldNames = ReadonlyMap<string, number>;

/** Adds the camelCase spelling of each `snake_case` name. */
export function fieldNames(names: Readonly<Record<string, number>>): FieldNames {
  const all = new Map<string, number>();
  for (const [name, field] of Object.entries(names)) {
    all.set(name, field);
    all.set(
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      field,
    );
  }
  return all;
}

/** The name of the outermost object in error messages. */
export const THE_BODY = "the body";

/** Called with the path of each member that a message does not have, and with the names that it does have. */
export type UnknownMember = (path: string, known: FieldNames) => void;

/** The members of a message by field number; undefined when `value` is absent or null. Null members count as absent. */
export function readFields(
  value: unknown,
  known: FieldNames,
  what: string,
  unknown?: UnknownMember,
): readonly unknown[] | undefined {
  if (value === undefined || value === null) return undefined;
  const fields: unknown[] = [];
  const members = readObject(value, what);
  let seen = 0;
  for (const key of Object.keys(members)) {
    const field = known.get(key);
    if (field === undefined) {
      unknown?.(what === THE_BODY ? key : `${what}.${key}`, known);
      continue;
    }
    const bit = 1 << field;
    if ((seen & bit) !== 0) throw invalid(`${what} names a member twice`);
    seen |= bit;
    const member = members[key];
    fields[field] = member === null ? undefined : member;
  }
  return fields;
}

export function readObject(value: unknown, what: string): Members {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Members;
  throw invalid(`${what} must be an object`);
}

export function readText(value: unknown, what: string): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  throw invalid(`${what} must be a string`);
}

export function readTexts(value: unknown, what: string): readonly string[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw invalid(`${what} must be a list of strings`);
  return value.map((item) => {
    if (typeof item === "string") return item;
    throw invalid(`${what} must be a list of strings`);
  });
}

export function readBoolean(value: unknown, what: string): boolean {
  if (value === undefined) return false;
  if (typeof value === "boolean") return value;
  throw invalid(`${what} must be true or false`);
}

const INTEGER = /^-?(?:0|[1-9]\d{0,18})$/;
const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
const INT64_MAX = 9223372036854775807n;

/** The exact decimal text of a JSON number that is an integer (`1.2e1` is one); else undefined. */
function wholeText(text: string): string | undefined {
  if (INTEGER.test(text)) return text === "-0" ? "0" : text;
  const found = text.length > 400 ? null : NUMBER.exec(text);
  if (found === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = found;
  const digits = `${whole}${fraction}`.replace(/^0+(?=\d)/, "");
  if (/^0*$/.test(digits)) return "0";
  const shift = Number(exponent) - fraction.length;
  const kept = shift < 0 ? digits.slice(0, shift) : digits;
  if (shift < 0 && (digits.length <= -shift || /[^0]/.test(digits.slice(shift)))) return undefined;
  if (kept.length + Math.max(0, shift) > 19) return undefined;
  return `${sign}${kept}${"0".repeat(Math.max(0, shift))}`;
}

/** An int64 as decimal text. `exact` returns the original text of a number that a double cannot represent. */
export function readInt64(value: unknown, what: string, exact: () => unknown): string {
  if (value === undefined) return "0";
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value + 0);
  const given = typeof value === "number" ? exact() : value;
  const text = typeof given === "string" ? int64Text(given) : undefined;
  if (text !== undefined) return text;
  throw invalid(`${what} must be a whole number of 64 bits`);
}

/** The exact decimal text of a JSON number that is an int64; else undefined. */
export function int64Text(given: string): string | undefined {
  const text = wholeText(given);
  if (text === undefined) return undefined;
  const number = BigInt(text);
  return number <= INT64_MAX && number >= -INT64_MAX - 1n ? text : undefined;
}

/** A uint32, given as a number or a string. */
export function readUint32(value: unknown, what: string): number {
  if (value === undefined) return 0;
  const text = typeof value === "string" ? wholeText(value) : undefined;
  const number = text === undefined ? value : Number(text);
  if (typeof number === "number" && number >>> 0 === number) return number;
  throw invalid(`${what} must be a whole number from 0 to 4294967295`);
}

const DOUBLE = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A finite double, given as a number or a string. */
export function readDouble(value: unknown, what: string): number {
  if (value === undefined) return 0;
  const number = typeof value === "string" && DOUBLE.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isFinite(number)) return number;
  throw invalid(`${what} must be a finite number`);
}

/** The original text of the last number under one of these names, anywhere in the text. Parses a second time, slowly. */
export function exactNumber(text: string, names: readonly string[]): string | undefined {
  let found: string | undefined;
  JSON.parse(text, (key: string, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value === "number" && names.includes(key)) found = context?.source;
    return value;
  });
  return found;
}
