// JSON documents that come with a request, and the texts that labels take out of them. Numbers keep the
// digits they were written with (1.50 stays 1.50, big integers stay whole), so beside the parsed value
// the source is searched for the place a pointer means. Documents come from outside: size and depth are
// bounded, and no walk recurses.

import { Fault } from "#base/fault.ts";
import type { Segment } from "./pointer.ts";

/** Characters; what a door takes as a body. */
const MAX_LENGTH = 1 << 20;
const MAX_DEPTH = 64;

export interface Json {
  /** A string as it is, anything else as JSON without white space; undefined where nothing is. */
  text(pointer: readonly Segment[]): string | undefined;
}

/** Undefined when the text is not JSON. Throws when it is larger or deeper than anybody should send. */
export function parseJson(source: string): Json | undefined {
  if (source.length > MAX_LENGTH) throw new Fault("OUT_OF_RANGE", "JSON document too long");
  let root: unknown;
  try {
    root = JSON.parse(source);
  } catch {
    return undefined;
  }
  if (deeperThan(source, MAX_DEPTH)) throw new Fault("OUT_OF_RANGE", "JSON document too deep");
  return {
    text(pointer) {
      const value = follow(root, pointer);
      switch (typeof value) {
        case "undefined":
          return undefined;
        case "string":
          return value;
        case "boolean":
          return value ? "true" : "false";
        default:
          return value === null ? "null" : compact(source, locate(source, pointer));
      }
    },
  };
}

function follow(root: unknown, pointer: readonly Segment[]): unknown {
  let value = root;
  for (const { name, index } of pointer) {
    if (Array.isArray(value)) value = index < 0 ? undefined : value[index];
    else if (isObject(value) && Object.hasOwn(value, name)) value = value[name];
    else return undefined;
  }
  return value;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

// From here on the source is known to be valid JSON, which is what lets the walks be this short.

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
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

/** Where the value that the pointer means starts; the pointer is known to mean one. */
function locate(source: string, pointer: readonly Segment[]): number {
  let at = skipSpace(source, 0);
  for (const { name, index } of pointer) {
    at =
      source.charCodeAt(at) === OPEN_OBJECT
        ? locateMember(source, at, name)
        : locateElement(source, at, index);
  }
  return at;
}

/** The last member of that name, as the parser has it too. */
function locateMember(source: string, object: number, name: string): number {
  let found = -1;
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
  for (let passed = 0; passed < index; passed++) {
    at = skipSpace(source, skipSpace(source, endOfValue(source, at)) + 1);
  }
  return at;
}

function stringAt(source: string, start: number, end: number): string {
  const raw = source.slice(start + 1, end - 1);
  return raw.includes("\\") ? String(JSON.parse(source.slice(start, end))) : raw;
}

/** The value at `start` as JSON without white space; its strings are written in their shortest form. */
function compact(source: string, start: number): string {
  const end = endOfValue(source, start);
  let out = "";
  let at = start;
  while (at < end) {
    if (source.charCodeAt(at) === QUOTE) {
      const close = endOfString(source, at);
      out += JSON.stringify(stringAt(source, at, close));
      at = close;
    } else {
      const stop = endOfToken(source, at);
      out += source.slice(at, stop);
      at = stop;
    }
    at = skipSpace(source, at);
  }
  return out;
}

function endOfValue(source: string, start: number): number {
  let depth = 0;
  let at = start;
  do {
    const code = source.charCodeAt(at);
    if (code === QUOTE) at = endOfString(source, at);
    else {
      if (code === OPEN_ARRAY || code === OPEN_OBJECT) depth++;
      else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--;
      at = endOfToken(source, at);
    }
    if (depth > 0) at = skipSpace(source, at);
  } while (depth > 0);
  return at;
}

/** `start` is the opening quote; the result is just behind the closing one. */
function endOfString(source: string, start: number): number {
  let at = start + 1;
  for (;;) {
    const code = source.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    at += code === BACKSLASH ? 2 : 1;
  }
}

/** End of a number, a word, or one punctuation mark. */
function endOfToken(source: string, start: number): number {
  if (isPunctuation(source.charCodeAt(start))) return start + 1;
  let at = start + 1;
  while (at < source.length && !isSpace(source.charCodeAt(at))) {
    if (isPunctuation(source.charCodeAt(at))) break;
    at++;
  }
  return at;
}

function skipSpace(source: string, start: number): number {
  let at = start;
  while (isSpace(source.charCodeAt(at))) at++;
  return at;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}

function isPunctuation(code: number): boolean {
  switch (code) {
    case COMMA:
    case COLON:
    case OPEN_ARRAY:
    case CLOSE_ARRAY:
    case OPEN_OBJECT:
    case CLOSE_OBJECT:
      return true;
    default:
      return false;
  }
}
