// Validates one value against its row, be it typed (from a file or JSON) or plain text (from a variable), and describes
// what a row accepts and what was found.

import { formatDuration, parseDuration } from "#base/duration.ts";
import { decimalOf } from "#base/text/decimal.ts";
import type {
  ChoiceRow,
  DurationRow,
  FloatsRow,
  LeafRow,
  NumberRow,
  Row,
  StringsRow,
} from "./row.ts";

/** A valid value in the form of the typed tree, or a description of what was wanted. */
export type Validated = { readonly value: unknown } | { readonly wanted: string };

/** Node's timers count milliseconds in 31 bits; a longer timer would fire at once. */
export const LONGEST_MS = 24 * 24 * 3_600_000;

const MIN_WORDS: Readonly<Record<DurationRow["least"], string>> = {
  any: "",
  "0s": ", not negative",
  "1s": ", at least 1s",
  "10s": ", at least 10s",
  "above 0s": ", more than 0s",
};

/** Milliseconds. */
export const mostOf = ({ most }: DurationRow): number =>
  (most === undefined ? undefined : parseDuration(most)) ?? LONGEST_MS;

export const MIN_MS: Readonly<Record<DurationRow["least"], number>> = {
  any: -LONGEST_MS,
  "0s": 0,
  "1s": 1_000,
  "10s": 10_000,
  "above 0s": 0,
};

/** The range of a number row in words; empty when only its type bounds it. */
export function rangeOf({ min, max }: { readonly min: number; readonly max: number }): string {
  const low = Math.abs(min) >= Number.MAX_SAFE_INTEGER ? undefined : min;
  const high = Math.abs(max) >= Number.MAX_SAFE_INTEGER ? undefined : max;
  if (low !== undefined && high !== undefined) return `from ${low} to ${high}`;
  if (low !== undefined) return `at least ${low}`;
  return high === undefined ? "" : `at most ${high}`;
}

function items(what: string): string {
  return `a list, each item ${what}`;
}

/** Completes "wanted …". */
export function wantedOf(row: LeafRow): string {
  switch (row.kind) {
    case "bool":
      return "true or false";
    case "number": {
      const kind = row.type === "float64" ? "a number" : "a whole number";
      return `${kind} ${rangeOf(row)}`.trimEnd();
    }
    case "string":
      return row.format.wanted;
    case "choice":
      return `one of ${row.values.map((value) => value || '""').join(", ")}`;
    case "duration":
      return `a duration such as 10s, 1m30s or 100ms${MIN_WORDS[row.least]}`;
    case "strings":
      return items(row.format.wanted);
    case "floats":
      return `${items(`a number ${rangeOf(row)}`)} and greater than the one before`;
    case "headers":
      return "a map from header names to lists of text";
    case "objects":
      return "a list of objects";
  }
}

function validateNumber(row: NumberRow, raw: unknown): Validated {
  const whole = row.type !== "float64";
  const valid =
    typeof raw === "number" &&
    Number.isFinite(raw) &&
    (!whole || Number.isSafeInteger(raw)) &&
    raw >= row.min &&
    raw <= row.max;
  if (valid) return { value: raw === 0 ? 0 : raw };
  const tooLarge = whole && typeof raw === "number" && Math.abs(raw) > Number.MAX_SAFE_INTEGER;
  return { wanted: tooLarge && inRange(row, raw) ? `${wantedOf(row)}, ${EXACT}` : wantedOf(row) };
}

/** True if the bounds of the row itself allow a value; those that stand for the whole type allow every value. */
function inRange({ min, max }: NumberRow, raw: number): boolean {
  const isBound = (bound: number) => Math.abs(bound) < Number.MAX_SAFE_INTEGER;
  const low = min === 0 || isBound(min) ? min : Number.NEGATIVE_INFINITY;
  return raw >= low && raw <= (isBound(max) ? max : Number.POSITIVE_INFINITY);
}

/** The reason to refuse a whole number that its type would allow. */
const EXACT = `at most ${Number.MAX_SAFE_INTEGER} (2^53 - 1) in size, because larger ones would lose digits`;

function validateChoice(row: ChoiceRow, raw: unknown): Validated {
  const found = row.values.find((value) => value === raw);
  return found === undefined ? { wanted: wantedOf(row) } : { value: found };
}

function validateDuration(row: DurationRow, raw: unknown): Validated {
  const ms = raw === 0 ? 0 : typeof raw === "string" ? parseDuration(raw) : undefined;
  if (ms === undefined) return { wanted: wantedOf(row) };
  if (Math.abs(ms) > mostOf(row)) return { wanted: `a duration of at most ${row.most ?? "576h"}` };
  const valid = ms >= MIN_MS[row.least] && (row.least !== "above 0s" || ms > 0);
  return valid ? { value: ms === 0 ? 0 : ms } : { wanted: wantedOf(row) };
}

function validateStrings(row: StringsRow, raw: unknown): Validated {
  const valid =
    Array.isArray(raw) && raw.every((item) => typeof item === "string" && row.format.accepts(item));
  return valid ? { value: Object.freeze([...raw]) } : { wanted: wantedOf(row) };
}

function validateFloats(row: FloatsRow, raw: unknown): Validated {
  const valid =
    Array.isArray(raw) &&
    raw.every((item) => typeof item === "number" && item >= row.min && item <= row.max) &&
    raw.every((item, at) => at === 0 || item > raw[at - 1]);
  return valid ? { value: Object.freeze([...raw]) } : { wanted: wantedOf(row) };
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function canonical(name: string): string {
  return name.toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

function validateHeaders(row: LeafRow, raw: unknown): Validated {
  const refused = { wanted: wantedOf(row) };
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) return refused;
  const read = new Map<string, readonly string[]>();
  for (const [name, values] of Object.entries(raw)) {
    const spelled = canonical(name);
    if (!TOKEN.test(name) || read.has(spelled) || !Array.isArray(values)) return refused;
    if (!values.every((value) => typeof value === "string" && !/[\r\n\0]/.test(value))) {
      return refused;
    }
    read.set(spelled, Object.freeze([...values]));
  }
  return { value: Object.freeze(Object.fromEntries(read)) };
}

/** Validates a typed value. Lists of objects are validated elsewhere, item by item. */
export function validateValue(row: LeafRow, raw: unknown): Validated {
  switch (row.kind) {
    case "bool":
      return typeof raw === "boolean" ? { value: raw } : { wanted: wantedOf(row) };
    case "number":
      return validateNumber(row, raw);
    case "string":
      return typeof raw === "string" && row.format.accepts(raw)
        ? { value: raw }
        : { wanted: wantedOf(row) };
    case "choice":
      return validateChoice(row, raw);
    case "duration":
      return validateDuration(row, raw);
    case "strings":
      return validateStrings(row, raw);
    case "floats":
      return validateFloats(row, raw);
    case "headers":
      return validateHeaders(row, raw);
    case "objects":
      return { wanted: wantedOf(row) };
  }
}

const TRUE: ReadonlySet<string> = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const FALSE: ReadonlySet<string> = new Set(["0", "f", "F", "FALSE", "false", "False"]);
const WHOLE = /^[+-]?\d+$/;

/** Parses a number strictly. Returns undefined for any other text. */
function numberOf(text: string, whole: boolean): number | undefined {
  if (!whole) return decimalOf(text);
  return WHOLE.test(text) ? Number(text) : undefined;
}

/** A first or last item that begins or ends with an IPv6 address has brackets of its own. */
const BEGINS_WITH_IPV6 = /^\[[\da-f:.]+\]/i;
const ENDS_WITH_IPV6 = /\[[\da-f:.]+\]$/i;

/**
 * `a,b,c`, the same in brackets, or a JSON array. Items of the first two forms are trimmed and cannot be quoted. Undefined for
 * other text, and where one bracket is missing.
 */
function listOf(text: string, parse: (item: string) => unknown): readonly unknown[] | undefined {
  const trimmed = text.trim();
  const opens = trimmed.startsWith("[");
  const closes = trimmed.endsWith("]");
  if (!opens || !closes) {
    const isHalf = opens
      ? !BEGINS_WITH_IPV6.test(trimmed)
      : closes && !ENDS_WITH_IPV6.test(trimmed);
    return trimmed === "" || isHalf ? undefined : itemsOf(trimmed, parse);
  }
  const inside = trimmed.slice(1, -1).trim();
  if (inside === "") return [];
  if (!inside.includes('"')) return itemsOf(inside, parse);
  const parsed = jsonOf(trimmed);
  return Array.isArray(parsed) ? parsed : undefined;
}

function itemsOf(text: string, parse: (item: string) => unknown): readonly unknown[] {
  return text.split(",").map((item) => parse(item.trim()));
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Validates the text of a variable. Not for rows that accept only JSON (maps, lists of objects). */
export function validateText(row: LeafRow, text: string): Validated {
  switch (row.kind) {
    case "bool":
      if (TRUE.has(text)) return { value: true };
      return FALSE.has(text) ? { value: false } : { wanted: wantedOf(row) };
    case "number":
      return validateValue(row, numberOf(text, row.type !== "float64"));
    case "strings":
      return validateList(row, listOf(text, String));
    case "floats":
      return validateList(
        row,
        listOf(text, (item) => numberOf(item, false)),
      );
    case "string":
    case "choice":
    case "duration":
    case "headers":
    case "objects":
      return validateValue(row, text);
  }
}

function validateList(row: LeafRow, list: readonly unknown[] | undefined): Validated {
  const validated = validateValue(row, list);
  if ("value" in validated) return validated;
  return { wanted: `${validated.wanted}, written a,b or [a,b] or as JSON` };
}

/** A value of the typed tree as a file would have it. `leafOf` may change values of rows that are neither objects nor durations. */
export function plainValue(
  row: Row,
  value: unknown,
  leafOf: (row: LeafRow, value: unknown) => unknown = (_, leaf) => leaf,
): unknown {
  if (row.kind === "duration") return typeof value === "number" ? formatDuration(value) : value;
  if (row.kind !== "object" && row.kind !== "objects") return leafOf(row, value);
  const plainObject = (each: unknown) => {
    const fields = each as Readonly<Record<string, unknown>>;
    return Object.fromEntries(
      Object.entries(row.table.rows).map(([key, of]) => [key, plainValue(of, fields[key], leafOf)]),
    );
  };
  if (row.kind === "object") return plainObject(value);
  return Array.isArray(value) ? value.map(plainObject) : value;
}

const LONGEST_SHOWN = 80;

/** Masks credentials inside URLs: user and password, and the values of a query or fragment. */
export function withoutCredentials(text: string): string {
  return text
    .replace(/((?:[a-z][a-z0-9+.-]*:\/\/)?)[^\s"]*@/gi, "$1***@")
    .replace(/(:\/\/[^?#]*[?#]).+/s, "$1***")
    .replace(/([?#])[^?#]*=.*/s, "$1***");
}

/** The kind of a value, without the value. */
export function kindOfValue(raw: unknown): string {
  if (raw === null) return "null";
  if (Array.isArray(raw)) return "a list";
  if (typeof raw === "object") return "a map";
  if (typeof raw === "string") return "text";
  if (typeof raw === "boolean") return "true or false";
  return typeof raw === "number" ? "a number" : "nothing";
}

/** An item of a list: text without credentials, other scalars as they are, other values only by their kind. */
function itemOf(item: unknown): unknown {
  if (typeof item === "string") return withoutCredentials(item);
  return typeof item === "object" && item !== null ? kindOfValue(item) : item;
}

/**
 * A description of the value that was found, for a message. `source` is a number as it was written: reading it may have
 * changed its last digits.
 */
export function gotOf(row: LeafRow, raw: unknown, source?: string): string {
  if (row.secret === true) return `${kindOfValue(raw)} (secret, not shown)`;
  if (typeof raw === "string" || Array.isArray(raw)) {
    const shown = Array.isArray(raw) ? raw.map(itemOf) : itemOf(raw);
    return shortened(JSON.stringify(shown));
  }
  if (typeof raw === "number") return shortened(source ?? String(raw));
  return typeof raw === "boolean" ? String(raw) : kindOfValue(raw);
}

function shortened(text: string): string {
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}
