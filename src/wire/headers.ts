// Headers of described requests: names kept once per spelling, found by their bytes, so that a check
// makes no strings for the names that every request carries; values stay wherever they are.

import type { Chance } from "#base/chance.ts";
import { asBuffer } from "./proto-reader.ts";

/** More headers than any honest request has; beyond it the request is refused. */
export const MAX_HEADERS = 1_000;

/** One spelling of a header name. Identity-stable while it is kept. */
export interface HeaderName {
  /** Grows, never used twice; -1 for a name that is not kept. */
  readonly id: number;
  /** Two unguessable words: a set of kept names is known by their sums, in whatever order they come. */
  readonly lo: number;
  readonly hi: number;
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

/** Bytes that all kept spellings have room in at first; it doubles as they come. */
const FIRST_SPELLINGS = 4_096;

export class HeaderNames {
  readonly #seed: number;
  readonly #seedLo: number;
  readonly #seedHi: number;
  #table: (HeaderName | undefined)[] = new Array(TABLE_SIZE);
  /** Of the spelling that is kept at the same place in `#table`: its hash, and where its bytes lie. */
  readonly #hashes = new Int32Array(TABLE_SIZE);
  readonly #starts = new Int32Array(TABLE_SIZE);
  readonly #lengths = new Uint8Array(TABLE_SIZE);
  /** All kept spellings, one behind the other: comparing them meets no object. */
  #spellings = new Uint8Array(FIRST_SPELLINGS);
  #spelt = 0;
  readonly #texts = new Map<string, HeaderName>();
  #nextId = 0;

  /** Hashes are seeded: names come from outside. */
  constructor(chance: Chance) {
    this.#seed = Math.floor(chance() * 0x100000000) | 0;
    this.#seedLo = Math.floor(chance() * 0x100000000) | 0;
    this.#seedHi = Math.floor(chance() * 0x100000000) | 0;
  }

  ofBytes(bytes: Uint8Array, start: number, end: number): HeaderName {
    const length = end - start;
    if (length > MAX_KEPT_LENGTH) return describe(textOf(bytes, start, end), -1, 0, 0);
    const hash = hashOf(this.#seed, bytes, start, end);
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const place = (hash + probe) & (TABLE_SIZE - 1);
      const name = this.#table[place];
      if (name === undefined) return this.#keep(place, hash, bytes, start, end);
      if (this.#hashes[place] === hash && this.#isAt(place, bytes, start, length)) return name;
    }
    return this.ofText(textOf(bytes, start, end));
  }

  ofText(text: string): HeaderName {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (text.length > MAX_KEPT_LENGTH) return describe(text, -1, 0, 0);
    if (this.#texts.size >= MAX_NAMES) {
      this.#texts.clear();
      this.#table = new Array(TABLE_SIZE);
      this.#spelt = 0;
    }
    const id = this.#nextId++;
    const name = describe(text, id, mixed(id + this.#seedLo), mixed(id ^ this.#seedHi));
    this.#texts.set(text, name);
    return name;
  }

  #isAt(place: number, bytes: Uint8Array, start: number, length: number): boolean {
    if (this.#lengths[place] !== length) return false;
    const spellings = this.#spellings;
    const from = this.#starts[place] ?? 0;
    for (let at = 0; at < length; at++) {
      if (spellings[from + at] !== bytes[start + at]) return false;
    }
    return true;
  }

  #keep(place: number, hash: number, bytes: Uint8Array, start: number, end: number): HeaderName {
    const text = textOf(bytes, start, end);
    const name = this.ofText(text);
    // Bytes that are no text: many spellings of one name would fill the table, and nothing would empty it.
    if (text.includes("\ufffd")) return name;
    const from = this.#spelt;
    this.#spelt = from + end - start;
    if (this.#spelt > this.#spellings.length) this.#grow();
    this.#spellings.set(bytes.subarray(start, end), from);
    this.#table[place] = name;
    this.#hashes[place] = hash;
    this.#starts[place] = from;
    this.#lengths[place] = end - start;
    return name;
  }

  #grow(): void {
    const larger = new Uint8Array(this.#spellings.length * 2);
    larger.set(this.#spellings);
    this.#spellings = larger;
  }
}

/**
 * Four bytes a step: loads do not wait for each other as multiplications do. Whoever makes names collide makes
 * only these dearer, by a few probes and a string.
 */
function hashOf(seed: number, bytes: Uint8Array, start: number, end: number): number {
  let hash = seed ^ (end - start);
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const low = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
    const word = low | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
    hash = Math.imul(hash ^ word, 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  let rest = 0;
  for (; at < end; at++) rest = (rest << 8) | (bytes[at] ?? 0);
  hash = Math.imul(hash ^ rest, 0x01000193);
  return hash ^ (hash >>> 13);
}

/** Spreads a number over 32 bits (the end of MurmurHash3). */
function mixed(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

function textOf(bytes: Uint8Array, start: number, end: number): string {
  return asBuffer(bytes).toString("utf8", start, end);
}

function describe(raw: string, id: number, lo: number, hi: number): HeaderName {
  const lower = raw.toLowerCase();
  const label = lower.replaceAll("-", "_");
  return { id, lo, hi, raw, lower, label, pseudo: raw.startsWith(":") };
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
  const { names } = list;
  let found = -1;
  for (let at = 0; at < names.length; at++) {
    const name = names[at];
    // To compare lengths first is a call less for most.
    if (name === undefined || name.label.length !== label.length) continue;
    if (name.label !== label || name.pseudo) continue;
    if (found >= 0) return headerByName(list, smallest(names, label));
    found = at;
  }
  return found < 0 ? undefined : list.value(found);
}

/** The smallest of the names that spell a label; there is one. */
function smallest(names: readonly HeaderName[], label: string): string {
  let winner: string | undefined;
  for (const name of names) {
    if (name.label !== label || name.pseudo) continue;
    if (winner === undefined || name.lower < winner) winner = name.lower;
  }
  return winner ?? "";
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
