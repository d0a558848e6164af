// Headers of described requests: names kept once per spelling, found by their bytes, so that a check
// makes no strings for the names that every request carries; values stay wherever they are.

import type { Chance } from "#base/chance.ts";

/** More headers than any honest request has; beyond it the request is refused. */
export const MAX_HEADERS = 1_000;

/** One spelling of a header name. Identity-stable while it is kept. */
export interface HeaderName {
  /** Grows, never used twice; -1 for a name that is not kept. */
  readonly id: number;
  readonly raw: string;
  readonly lower: string;
  /** Lower case, dashes as underscores: the last part of its flow label. */
  readonly label: string;
  /** Starts with a colon: not a header of its own. */
  readonly pseudo: boolean;
}

export interface HeaderList {
  readonly names: readonly HeaderName[];
  /** What the same spelling twice means: a map's last entry wins, a list's are joined. */
  readonly repeated: "last" | "join";
  value(index: number): string;
}

export const NO_HEADERS: HeaderList = { names: [], repeated: "last", value: () => "" };

/** Most spellings that are kept; then all are forgotten and the common ones soon known again. */
const MAX_NAMES = 2_048;
const MAX_KEPT_LENGTH = 96;
const TABLE_SIZE = 8_192;
const MAX_PROBES = 8;

interface Kept {
  readonly hash: number;
  readonly bytes: Uint8Array;
  readonly name: HeaderName;
}

export class HeaderNames {
  readonly #seed: number;
  #table: (Kept | undefined)[] = new Array(TABLE_SIZE);
  readonly #texts = new Map<string, HeaderName>();
  #nextId = 0;

  /** The hash is seeded: names come from outside. */
  constructor(chance: Chance) {
    this.#seed = Math.floor(chance() * 0x100000000) | 0;
  }

  ofBytes(bytes: Buffer, start: number, end: number): HeaderName {
    const length = end - start;
    if (length > MAX_KEPT_LENGTH) return describe(bytes.toString("utf8", start, end), -1);
    let hash = this.#seed;
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193);
    hash ^= hash >>> 15;
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const place = (hash + probe) & (TABLE_SIZE - 1);
      const kept = this.#table[place];
      if (kept === undefined) return this.#keep(place, hash, bytes, start, end);
      if (kept.hash === hash && same(kept.bytes, bytes, start, length)) return kept.name;
    }
    return this.ofText(bytes.toString("utf8", start, end));
  }

  ofText(text: string): HeaderName {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (text.length > MAX_KEPT_LENGTH) return describe(text, -1);
    if (this.#texts.size >= MAX_NAMES) {
      this.#texts.clear();
      this.#table = new Array(TABLE_SIZE);
    }
    const name = describe(text, this.#nextId++);
    this.#texts.set(text, name);
    return name;
  }

  #keep(place: number, hash: number, bytes: Buffer, start: number, end: number): HeaderName {
    const text = bytes.toString("utf8", start, end);
    const name = this.ofText(text);
    // Bytes that are no text: many spellings of one name would fill the table, and nothing would empty it.
    if (text.includes("\ufffd")) return name;
    this.#table[place] = { hash, bytes: Uint8Array.from(bytes.subarray(start, end)), name };
    return name;
  }
}

function same(kept: Uint8Array, bytes: Buffer, start: number, length: number): boolean {
  if (kept.length !== length) return false;
  for (let at = 0; at < length; at++) if (kept[at] !== bytes[start + at]) return false;
  return true;
}

function describe(raw: string, id: number): HeaderName {
  const lower = raw.toLowerCase();
  return { id, raw, lower, label: lower.replaceAll("-", "_"), pseudo: raw.startsWith(":") };
}

/** Whether the entry counts: of a map's equal keys only the last does. */
function counts(list: HeaderList, index: number, name: HeaderName): boolean {
  return (
    list.repeated === "join" ||
    !list.names.some((other, at) => at > index && other.raw === name.raw)
  );
}

function joined(list: HeaderList, matches: (name: HeaderName) => boolean): string | undefined {
  let found: string | undefined;
  const { names } = list;
  for (let index = 0; index < names.length; index++) {
    const name = names[index];
    if (name === undefined || !matches(name) || !counts(list, index, name)) continue;
    const value = list.value(index);
    found = found === undefined ? value : `${found},${value}`;
  }
  return found;
}

/** Value by the name as received, case included. */
export function headerAsReceived(list: HeaderList, raw: string): string | undefined {
  return joined(list, (name) => name.raw === raw);
}

/** Value by the name in lower case, whatever the case it came in. */
export function headerByName(list: HeaderList, lower: string): string | undefined {
  return joined(list, (name) => name.lower === lower);
}

/**
 * Value for a label. When several names spell it, the one with the earliest dash wins: `-` sorts before
 * `_`, so that is the smallest name, whatever the order of arrival.
 */
export function headerByLabel(list: HeaderList, label: string): string | undefined {
  let winner: string | undefined;
  const { names } = list;
  for (let at = 0; at < names.length; at++) {
    const name = names[at];
    if (name === undefined || name.label !== label || name.pseudo) continue;
    if (winner === undefined || name.lower < winner) winner = name.lower;
  }
  return winner === undefined ? undefined : headerByName(list, winner);
}

/** One value per spelling: what a map, which has each key once, must say to mean the same as the list. */
export function headersAsMap(list: HeaderList): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  list.names.forEach(({ raw }, index) => {
    const earlier = texts.get(raw);
    const value = list.value(index);
    if (earlier === undefined || list.repeated === "join") {
      texts.set(raw, earlier === undefined ? value : `${earlier},${value}`);
      return;
    }
    // The last entry counts, and stands where it came.
    texts.delete(raw);
    texts.set(raw, value);
  });
  return texts;
}

/** All labels at once, by the rules of `headerByLabel`, in one pass. */
export function headersByLabel(list: HeaderList): ReadonlyMap<string, string> {
  const found = new Map<string, { readonly lower: string; readonly values: Map<string, string> }>();
  list.names.forEach((name, index) => {
    if (name.pseudo) return;
    let label = found.get(name.label);
    if (label === undefined || name.lower < label.lower) {
      label = { lower: name.lower, values: new Map() };
      found.set(name.label, label);
    }
    if (name.lower !== label.lower) return;
    const entry = list.repeated === "join" ? String(index) : name.raw;
    label.values.delete(entry);
    label.values.set(entry, list.value(index));
  });
  const texts = new Map<string, string>();
  for (const [label, { values }] of found) texts.set(label, [...values.values()].join(","));
  return texts;
}
