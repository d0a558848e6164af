// Remembers the sorted label names of requests by their set of header names. Every reply lists all label names,
// and the requests of one caller have the same headers, so the list is rarely computed.

import { HEADER_PREFIX } from "#flow/label.ts";
import type { HeaderName } from "#wire/check/headers.ts";
import { KeyList } from "#wire/check/response.ts";
import { ATTRIBUTE_NAMES, type AttributeSet } from "./attributes.ts";

/** Facts about the labels of a request that follow from its set of header names. */
export interface LabelNames {
  /** Sorted. */
  readonly keys: KeyList;
  /** Two different header names give the same label. */
  readonly collides: boolean;
  readonly hasBaggage: boolean;
}

interface Entry {
  /** High half of the header set's hash; the low half is the key of the map. */
  readonly hi: number;
  readonly labelNames: LabelNames;
}

/** Approximate maximum size of the cache. Beyond it everything is forgotten; frequent sets soon come back. */
export const MAX_LABEL_NAME_BYTES = 4 * 1024 * 1024;
/** Approximate size of an entry besides its names, including the encoded labels that are stored with it. */
const ENTRY_BYTES = 1_280;
/** Size of a name besides its characters. */
const NAME_BYTES = 64;
/** Copies of each character: as text, in JSON, twice in protobuf, and in Base64 for each offset within a group of three. */
const COPIES = 8;
/**
 * Replies list this many headers, the first ones: legitimate requests have fewer, and a reply costs time for each label
 * that it lists. Sets of more headers are not cached.
 */
const MAX_HEADERS = 64;
/** A power of two, large enough that two names of one request rarely share a slot. */
const RECENT_SLOTS = 256;

/**
 * Identifies a set of header names, in any order, by the sums of the names' secret random words,
 * 64 bits in all. Callers do not know the words, so they cannot construct two sets that are taken for one.
 */
export class LabelNameCache {
  readonly #entries: Readonly<Record<AttributeSet, Map<number, Entry>>> = {
    proxy: new Map(),
    described: new Map(),
    none: new Map(),
  };
  #bytes = 0;
  /** Ids of recent names and the request that had them, so that a repeated name is added once. */
  readonly #ids = new Int32Array(RECENT_SLOTS).fill(-1);
  readonly #requests = new Int32Array(RECENT_SLOTS);
  #request = 0;

  get(attributes: AttributeSet, names: readonly HeaderName[]): LabelNames {
    if (names.length > MAX_HEADERS) return computeLabelNames(attributes, names);
    this.#request = (this.#request + 1) | 0;
    let lo = 0;
    let hi = 0;
    for (let at = 0; at < names.length; at++) {
      const name = names[at];
      if (name === undefined || name.id < 0) return computeLabelNames(attributes, names);
      if (this.#isRepeated(name.id)) continue;
      lo = (lo + name.lo) | 0;
      hi = (hi + name.hi) | 0;
    }
    const entry = this.#entries[attributes].get(lo);
    if (entry?.hi === hi) return entry.labelNames;
    return this.#add(attributes, lo, hi, computeLabelNames(attributes, names));
  }

  /** True if this request already had the name. A slot collision can miss a repetition: it only costs an extra entry. */
  #isRepeated(id: number): boolean {
    const slot = id & (RECENT_SLOTS - 1);
    if (this.#requests[slot] === this.#request && this.#ids[slot] === id) return true;
    this.#requests[slot] = this.#request;
    this.#ids[slot] = id;
    return false;
  }

  #add(attributes: AttributeSet, lo: number, hi: number, labelNames: LabelNames): LabelNames {
    this.#bytes += ENTRY_BYTES;
    for (const key of labelNames.keys.keys) this.#bytes += COPIES * key.length + NAME_BYTES;
    if (this.#bytes > MAX_LABEL_NAME_BYTES) {
      for (const entries of Object.values(this.#entries)) entries.clear();
      this.#bytes = 0;
    } else this.#entries[attributes].set(lo, { hi, labelNames });
    return labelNames;
  }
}

function computeLabelNames(attributes: AttributeSet, names: readonly HeaderName[]): LabelNames {
  const headers = new Map<string, string>();
  let collides = false;
  let hasBaggage = false;
  for (const [at, { pseudo, label, lower }] of names.entries()) {
    if (lower === "baggage") hasBaggage = true;
    if (pseudo || at >= MAX_HEADERS) continue;
    const other = headers.get(label);
    if (other !== undefined && other !== lower) collides = true;
    headers.set(label, lower);
  }
  const labels = Array.from(headers.keys(), (label) => HEADER_PREFIX + label);
  return {
    keys: new KeyList([...ATTRIBUTE_NAMES[attributes], ...labels].sort()),
    collides,
    hasBaggage,
  };
}
