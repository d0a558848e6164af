// Headers of HTTP requests. Header names are interned and found by their bytes, so that a check makes no strings for
// names that every request has. Values stay where they are until they are read.

import type { Chance } from "#base/chance.ts";
import { decodeText, equalBytes, hasControl } from "./bytes.ts";

/** Default maximum number of headers of one request: more than any legitimate request has. */
export const MAX_HEADERS = 1_000;

/** One spelling of a header name. The same object as long as it stays interned. */
export interface HeaderName {
  /** Ascending and never reused; -1 for a name that is not interned. */
  readonly id: number;
  /** Two secret random words: a set of interned names is identified by their sums, whatever the order. */
  readonly lo: number;
  readonly hi: number;
  readonly raw: string;
  readonly lower: string;
  /** In lower case with underscores for dashes: the last part of its flow label. */
  readonly label: string;
  /** A pseudo-header, whose name starts with a colon. */
  readonly pseudo: boolean;
  /** Has a control character, so that the request is refused. */
  readonly invalid: boolean;
  /** One of 32 bits, the same for names that are equal. */
  readonly bit: number;
}

export interface HeaderList {
  readonly names: readonly HeaderName[];
  /** The meaning of a repeated name: in a map the last entry wins, in a list the values are joined. */
  readonly repeated: "last" | "join";
  value(index: number): string;
}

export const NO_HEADERS: HeaderList = { names: [], repeated: "last", value: () => "" };

/** Maximum number of interned names. Beyond it all are dropped; frequent ones soon come back. */
const MAX_NAMES = 2_048;
const MAX_NAME_BYTES = 96;
const TABLE_SIZE = 8_192;
const MAX_PROBES = 8;

/** Initial size of the buffer with the bytes of all interned names; it doubles when full. */
const INITIAL_SPELLING_BYTES = 4_096;

/** Interns header names in an open-addressing hash table. */
export class HeaderNames {
  readonly #seed: number;
  readonly #seedLo: number;
  readonly #seedHi: number;
  #table: (HeaderName | undefined)[] = new Array(TABLE_SIZE);
  /** For the name in the same slot of `#table`: its hash, and the span of its bytes in `#spellings`. */
  readonly #hashes = new Int32Array(TABLE_SIZE);
  readonly #starts = new Int32Array(TABLE_SIZE);
  readonly #lengths = new Uint8Array(TABLE_SIZE);
  /** The bytes of all interned names in one buffer, so that comparing them touches no other object. */
  #spellings = new DataView(new ArrayBuffer(INITIAL_SPELLING_BYTES));
  #spellingBytes = 0;
  readonly #texts = new Map<string, HeaderName>();
  #nextId = 0;
  /** For each slot, the slot of the name that came after it the last time. */
  readonly #followers = new Uint16Array(TABLE_SIZE);
  /** Slot of the name that was found last. */
  #last = 0;

  /** A request with more headers is refused. The limit is here, because all readers of headers share this object. */
  readonly maxHeaders: number;

  /** Hashes are seeded from `chance`, because the names come from untrusted callers. */
  constructor(chance: Chance, maxHeaders = MAX_HEADERS) {
    this.maxHeaders = maxHeaders;
    this.#seed = Math.floor(chance() * 0x100000000) | 0;
    this.#seedLo = Math.floor(chance() * 0x100000000) | 0;
    this.#seedHi = Math.floor(chance() * 0x100000000) | 0;
  }

  /**
   * Names mostly come in the same order as in the request before, whose last name the first one follows. So the name
   * that followed the last time is compared first, which needs no hash.
   */
  ofBytes(bytes: DataView, start: number, end: number): HeaderName {
    const place = this.#followers[this.#last] ?? 0;
    if (this.#isAt(place, bytes, start, end - start)) {
      const name = this.#table[place];
      if (name !== undefined) {
        this.#last = place;
        return name;
      }
    }
    return this.#find(bytes, start, end);
  }

  #find(bytes: DataView, start: number, end: number): HeaderName {
    const length = end - start;
    if (length > MAX_NAME_BYTES) return describe(decodeText(bytes, start, end), -1, 0, 0);
    const hash = hashOf(this.#seed, bytes, start, end);
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const place = (hash + probe) & (TABLE_SIZE - 1);
      const name = this.#table[place];
      if (name === undefined) return this.#intern(place, hash, bytes, start, end);
      if (this.#hashes[place] !== hash || !this.#isAt(place, bytes, start, length)) continue;
      this.#followers[this.#last] = place;
      this.#last = place;
      return name;
    }
    return this.ofText(decodeText(bytes, start, end));
  }

  ofText(text: string): HeaderName {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (text.length > MAX_NAME_BYTES) return describe(text, -1, 0, 0);
    if (this.#texts.size >= MAX_NAMES) {
      this.#texts.clear();
      this.#table = new Array(TABLE_SIZE);
      this.#spellingBytes = 0;
    }
    const id = this.#nextId++;
    const name = describe(text, id, mixed(id + this.#seedLo), mixed(id ^ this.#seedHi));
    this.#texts.set(text, name);
    return name;
  }

  #isAt(place: number, bytes: DataView, start: number, length: number): boolean {
    if (this.#lengths[place] !== length) return false;
    return equalBytes(this.#spellings, this.#starts[place] ?? 0, bytes, start, length);
  }

  #intern(place: number, hash: number, bytes: DataView, start: number, end: number): HeaderName {
    const text = decodeText(bytes, start, end);
    const name = this.ofText(text);
    // Invalid UTF-8: many byte sequences with the same text would fill the table, and nothing would clear it.
    if (text.includes("\ufffd")) return name;
    const from = this.#spellingBytes;
    this.#spellingBytes = from + end - start;
    if (this.#spellingBytes > this.#spellings.byteLength) this.#grow();
    for (let at = start; at < end; at++)
      this.#spellings.setUint8(from + at - start, bytes.getUint8(at));
    this.#table[place] = name;
    this.#hashes[place] = hash;
    this.#starts[place] = from;
    this.#lengths[place] = end - start;
    return name;
  }

  #grow(): void {
    const larger = new Uint8Array(this.#spellings.byteLength * 2);
    larger.set(new Uint8Array(this.#spellings.buffer));
    this.#spellings = new DataView(larger.buffer);
  }
}

/**
 * Hashes four bytes per step, because multiplications depend on each other and loads do not. An attacker who makes
 * names collide only makes those names slower, by a few probes and a string.
 */
function hashOf(seed: number, bytes: DataView, start: number, end: number): number {
  let hash = seed ^ (end - start);
  let at = start;
  for (; at + 4 <= end; at += 4) {
    hash = Math.imul(hash ^ bytes.getInt32(at, true), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  let rest = 0;
  for (; at < end; at++) rest = (rest << 8) | bytes.getUint8(at);
  hash = Math.imul(hash ^ rest, 0x01000193);
  return hash ^ (hash >>> 13);
}

/** Spreads a number over 32 bits (the finalizer of MurmurHash3). */
function mixed(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

function describe(raw: string, id: number, lo: number, hi: number): HeaderName {
  const lower = raw.toLowerCase();
  const label = lower.replaceAll("-", "_");
  const pseudo = raw.startsWith(":");
  return { id, lo, hi, raw, lower, label, pseudo, invalid: hasControl(raw), bit: bitOf(raw) };
}

function bitOf(text: string): number {
  let sum = 0;
  for (let at = 0; at < text.length; at++) sum += text.charCodeAt(at);
  return 1 << (sum & 31);
}

/** True if the entry counts: of equal keys in a map only the last does. */
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

/** Value by the name in lower case; the case in which it came does not matter. */
export function headerByName(list: HeaderList, lower: string): string | undefined {
  return joined(list, (name) => name.lower === lower);
}

/**
 * Value by label. If several names give the label, the smallest name wins, whatever the order of arrival; `-` sorts
 * before `_`.
 */
export function headerByLabel(list: HeaderList, label: string): string | undefined {
  const { names } = list;
  let found = -1;
  for (let at = 0; at < names.length; at++) {
    const name = names[at];
    // Comparing lengths first saves a call for most names.
    if (name === undefined || name.label.length !== label.length) continue;
    if (name.label !== label || name.pseudo) continue;
    if (found >= 0) return headerByName(list, smallest(names, label));
    found = at;
  }
  return found < 0 ? undefined : list.value(found);
}

/** The smallest of the names that give a label. At least one must. */
function smallest(names: readonly HeaderName[], label: string): string {
  let winner: string | undefined;
  for (const name of names) {
    if (name.label !== label || name.pseudo) continue;
    if (winner === undefined || name.lower < winner) winner = name.lower;
  }
  return winner ?? "";
}

/** The headers as a map from name to value, with repeated names resolved as the list demands. */
export function headersAsMap(list: HeaderList): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  list.names.forEach(({ raw }, index) => {
    const earlier = texts.get(raw);
    const value = list.value(index);
    if (earlier === undefined || list.repeated === "join") {
      texts.set(raw, earlier === undefined ? value : `${earlier},${value}`);
      return;
    }
    // The last entry counts, at its place in the order.
    texts.delete(raw);
    texts.set(raw, value);
  });
  return texts;
}

/** The values of all labels, by the rules of `headerByLabel`, in one pass. */
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
