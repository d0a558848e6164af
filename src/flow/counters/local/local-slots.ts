// Concurrency slots counted in process: the tokens in flight per key, in order of their start, so that expired
// slots are found at the front without timers. A slot's id says where the slot is and proves that it is its own.

import { type Chance, uuid } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Observer } from "../../observer.ts";
import type { AdaptiveBounds } from "../../rules.ts";
import type { Gradient } from "../adaptive/gradient.ts";
import { AdaptiveLimits, type AdaptiveSummary } from "../adaptive-limits.ts";
import {
  type EngineAnswer,
  fits,
  type LocalEngine,
  ReusedAnswer,
  type SlotParams,
} from "../counter-engine.ts";
import { KeyHash } from "./keys/key-hash.ts";
import { type EvictionPolicy, type KeyHashWords, KeyTable } from "./keys/key-table.ts";
import { NONE, SlotPool } from "./slot-pool.ts";

export interface LocalSlotsContext {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
  readonly keyHash: KeyHash;
  readonly maxKeys: number;
}

/** The first slot of a key. With the key's hash that is a row of 12 bytes. A key is stored while it has a slot. */
const SHAPE = { words: 1, doubles: 0 } as const;

/** A limiter has twice as many slots as keys, and at least this many. */
const MIN_SLOTS = 65_536;

/** Lists of slots that keys share for which a full table has no room. Filling one list leaves the others usable. */
const OVERFLOW_LISTS = 256;

/** Hex digits at the start of a UUID that are free of version and variant. */
const PLACE_DIGITS = 8;
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export class LocalSlots implements LocalEngine<SlotParams>, EvictionPolicy {
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  /** Seeded for this limiter alone: ids are shown to callers. */
  readonly #idHash: KeyHash;
  readonly #maxSlots: number;
  readonly #table: KeyTable;
  readonly #pool = new SlotPool();
  readonly #answer = new ReusedAnswer();
  readonly #maxKeys: number;
  /** Undefined while the limit is not adaptive. */
  #adaptive: AdaptiveLimits | undefined;
  #now = 0;
  #maxInflightMs = 0;

  /** The first slot without a key. */
  #keylessFirst = NONE;
  /** The first slot of each list of keys without a row. */
  readonly #overflow = new Uint32Array(OVERFLOW_LISTS).fill(NONE);

  /** The current list: its kind, the hash of its key, and its first slot. A fresh key has no slots yet. */
  #where: "row" | "keyless" | "overflow" | "fresh" = "fresh";
  #lo = 0;
  #hi = 0;
  #first = NONE;

  constructor({ clock, chance, observer, keyHash, maxKeys }: LocalSlotsContext) {
    this.#clock = clock;
    this.#chance = chance;
    this.#observer = observer;
    this.#hash = keyHash;
    this.#idHash = KeyHash.seeded(chance);
    this.#maxKeys = maxKeys;
    this.#maxSlots = Math.max(MIN_SLOTS, 2 * maxKeys);
    this.#table = new KeyTable(SHAPE, maxKeys);
    this.#table.join(this);
  }

  get keys(): number {
    return this.#table.count;
  }

  /** Number of slots held, including expired slots that have not been freed. */
  get slots(): number {
    return this.#pool.count;
  }

  peek(value: string | undefined, want: number, params: SlotParams, now: number): EngineAnswer {
    this.#begin(params, now);
    this.#open(value);
    if (this.#where === "fresh" && !this.#table.hasRoom(now)) {
      this.#openOverflow();
      this.#answer.full = true;
    }
    let slot = this.#first;
    let sum = this.#pool.sum(slot);
    while (slot !== NONE && this.#expired(slot)) {
      sum = Math.max(0, sum - this.#pool.tokens(slot));
      slot = this.#pool.next(slot);
    }
    if (slot === NONE) sum = 0; // rounding may have left a fraction
    const max = this.#limit(params);
    return this.#report(fits(sum, want, max), sum, max, "");
  }

  take(value: string | undefined, want: number, params: SlotParams, now: number): EngineAnswer {
    this.#begin(params, now);
    this.#open(value);
    this.#expire();
    const id = uuid(this.#chance);
    let sum = this.#pool.sum(this.#first);
    let max = this.#limit(params);
    if (!fits(sum, want, max)) return this.#refuse(sum, max, params, id);
    if (!this.#hasSlot()) return this.#report(false, sum, max, id);
    if (this.#where === "fresh" && !this.#table.insert(this.#lo, this.#hi, now)) {
      this.#observer.anomaly("keys_overflow");
      this.#answer.full = true;
      this.#openOverflow();
      this.#expire();
      sum = this.#pool.sum(this.#first);
      max = this.#limit(params);
      if (!fits(sum, want, max)) return this.#refuse(sum, max, params, id);
    } else if (this.#where === "fresh") this.#where = "row";
    const slot = this.#pool.take(want, this.#now, this.#first);
    if (this.#first === NONE) {
      this.#first = slot;
      this.#store();
    }
    if (params.adaptive !== undefined) this.#limitOf(params.adaptive).passed(sum + want, now);
    return this.#report(true, sum, max, this.#mark(id, slot));
  }

  /** Learned limits of the keys; undefined where the limit is not adaptive, or no flow has asked. */
  adaptive(now: number): AdaptiveSummary | undefined {
    return this.#adaptive?.summary(now);
  }

  /** When the oldest slot of a key expires; Infinity for a key without slots. */
  nextExpiry(value: string | undefined, maxInflightMs: number): number {
    this.#open(value);
    if (this.#where === "fresh") this.#openOverflow();
    if (this.#first === NONE) return Number.POSITIVE_INFINITY;
    return this.#pool.start(this.#first) + maxInflightMs;
  }

  giveBack(
    value: string | undefined,
    _amount: number,
    id: string,
    params: SlotParams,
    unused = false,
  ): boolean {
    this.#begin(params, this.#clock.now());
    this.#open(value);
    const slot = this.#find(id);
    if (slot === NONE) return false;
    const late = this.#expired(slot);
    if (this.#adaptive !== undefined && !unused) {
      const [latency, tokens] = [this.#now - this.#pool.start(slot), this.#pool.tokens(slot)];
      this.#adaptive.known(this.#lo, this.#hi)?.ended(latency, tokens, this.#now);
    }
    this.#free(slot);
    return !late;
  }

  /** Slots in use must stay: their flows are in flight. */
  loss(_now: number, _doubles: Float64Array, _d: number, words: Uint32Array, w: number): number {
    const first = words[w] ?? NONE;
    return first === NONE || this.#expired(this.#pool.last(first)) ? 0 : Number.POSITIVE_INFINITY;
  }

  forget(
    _key: KeyHashWords,
    _now: number,
    _doubles: Float64Array,
    _d: number,
    words: Uint32Array,
    w: number,
  ): void {
    let first = words[w] ?? NONE;
    while (first !== NONE) first = this.#pool.free(first, first);
  }

  #begin(params: SlotParams, now: number): void {
    this.#now = now;
    this.#maxInflightMs = params.maxInflightMs;
    this.#answer.full = false;
  }

  /** Finds a key's slots. */
  #open(value: string | undefined): void {
    if (value === undefined) {
      this.#where = "keyless";
      this.#lo = 0;
      this.#hi = 0;
      this.#first = this.#keylessFirst;
      return;
    }
    this.#hash.of(value);
    this.#lo = this.#hash.lo;
    this.#hi = this.#hash.hi;
    const table = this.#table;
    const known = table.find(this.#lo, this.#hi);
    this.#where = known ? "row" : "fresh";
    this.#first = known ? (table.words[table.w] ?? NONE) : NONE;
  }

  /** Opens the overflow list that the current key shares with other keys without a row. */
  #openOverflow(): void {
    this.#where = "overflow";
    this.#lo = 0;
    this.#hi = 1 + (this.#hi % OVERFLOW_LISTS);
    this.#first = this.#overflow[this.#hi - 1] ?? NONE;
  }

  /** Stores which slot is the first now. */
  #store(): void {
    if (this.#where === "keyless") this.#keylessFirst = this.#first;
    else if (this.#where === "overflow") this.#overflow[this.#hi - 1] = this.#first;
    else if (this.#where === "row") {
      if (this.#first === NONE) {
        this.#table.remove(this.#lo, this.#hi);
        return;
      }
      // Eviction may have moved the row since it was opened.
      const table = this.#table;
      if (!table.find(this.#lo, this.#hi)) return;
      table.words[table.w] = this.#first;
    }
  }

  /** True if one more slot may be held. Without one the flow is refused: it could not be counted. */
  #hasSlot(): boolean {
    if (this.#pool.count < this.#maxSlots) return true;
    if (this.#table.evict(this.#now) && this.#pool.count < this.#maxSlots) return true;
    this.#observer.anomaly("keys_overflow");
    this.#answer.full = true;
    return false;
  }

  #expired(slot: number): boolean {
    return this.#pool.start(slot) + this.#maxInflightMs <= this.#now;
  }

  /** Frees expired slots. Stored slot by slot, because the table may look at the row in between. */
  #expire(): void {
    if (this.#first === NONE || !this.#expired(this.#first)) return;
    const learning = this.#adaptive?.known(this.#lo, this.#hi);
    while (this.#first !== NONE && this.#expired(this.#first)) {
      learning?.expired(this.#pool.tokens(this.#first), this.#now);
      this.#free(this.#first);
    }
    if (this.#where === "row" && this.#first === NONE) this.#where = "fresh";
  }

  #free(slot: number): void {
    const first = this.#pool.free(slot, this.#first);
    if (first === this.#first) return;
    this.#first = first;
    this.#store();
  }

  /** Replaces the first digits of an id by the number of its slot, masked with a hash of the other digits. */
  #mark(id: string, slot: number): string {
    this.#idHash.ofTail(id, PLACE_DIGITS);
    const { lo, hi } = this.#idHash;
    this.#pool.prove(slot, (lo ^ this.#lo) >>> 0, (hi ^ this.#hi) >>> 0);
    const place = ((slot ^ hi) >>> 0).toString(16).padStart(PLACE_DIGITS, "0");
    return place + id.slice(PLACE_DIGITS);
  }

  /** The slot that an id identifies, in the list of its key or in its overflow list, which is then opened. */
  #find(id: string): number {
    if (!ID.test(id)) return NONE;
    this.#idHash.ofTail(id, PLACE_DIGITS);
    const { lo, hi } = this.#idHash;
    const slot = (Number.parseInt(id.slice(0, PLACE_DIGITS), 16) ^ hi) >>> 0;
    if (this.#pool.proves(slot, (lo ^ this.#lo) >>> 0, (hi ^ this.#hi) >>> 0)) return slot;
    if (this.#where === "keyless") return NONE;
    this.#openOverflow();
    return this.#pool.proves(slot, lo, (hi ^ this.#hi) >>> 0) ? slot : NONE;
  }

  /** The most tokens in flight of the key at hand, now. */
  #limit({ max, adaptive }: SlotParams): number {
    if (adaptive === undefined) return max;
    return this.#adaptive?.limit(this.#lo, this.#hi, adaptive, this.#now) ?? adaptive.start;
  }

  #limitOf(bounds: AdaptiveBounds): Gradient {
    this.#adaptive ??= new AdaptiveLimits(this.#maxKeys);
    return this.#adaptive.of(this.#lo, this.#hi, bounds, this.#now);
  }

  #refuse(sum: number, max: number, { adaptive }: SlotParams, id: string): EngineAnswer {
    if (adaptive !== undefined) this.#limitOf(adaptive).refused(this.#now);
    return this.#report(false, sum, max, id);
  }

  /** `sum` is what was in flight before this request. */
  #report(granted: boolean, sum: number, max: number, id: string): EngineAnswer {
    const answer = this.#answer;
    answer.outcome = granted ? "granted" : "refused";
    answer.current = sum;
    answer.remaining = max - sum;
    answer.waitMs = 0;
    answer.id = id;
    return answer;
  }
}
