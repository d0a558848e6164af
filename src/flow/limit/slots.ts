// The local make of concurrency slots: what is in flight per key, in order of start, so that expired
// slots are found at the front without timers. An id says where its slot is and proves that it is its own.

import { type Chance, uuid } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { LimitWorld } from "../limit.ts";
import type { Observer } from "../observe.ts";
import { type LocalEngine, Reply, SLACK, type Taken } from "./engine.ts";
import { KeyHash } from "./hash.ts";
import { type Keeper, KeyTable } from "./keys.ts";
import { NONE, Slab } from "./slab.ts";

export interface SlotParams {
  /** Tokens in flight at most; finite, >= 0. */
  readonly max: number;
  /** A slot that nobody ends is free again after this long. */
  readonly maxInflightMs: number;
}

/** Row: hash lo, hi, first slot. 12 bytes. A key exists while a slot of it does. */
const SHAPE = { doubles: 0, words: 3 } as const;

/** Slots for one limiter: twice its keys, and this many for limiters of few keys and long queues. */
const MIN_SLOTS = 65_536;

/** Hex digits at the start of a UUID that are free of version and variant. */
const PLACE_DIGITS = 8;
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export class LocalSlots implements LocalEngine<SlotParams>, Keeper {
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #observer: Observer;
  readonly #hash: KeyHash;
  readonly #maxSlots: number;
  readonly #table: KeyTable;
  readonly #slab = new Slab();
  readonly #reply = new Reply();
  #now = 0;
  #maxInflightMs = 0;

  /** In flight without a key, or of the keys that overflow. */
  #sharedFirst = NONE;

  /** What is in hand: one key's slots. */
  #where: "row" | "shared" | "fresh" = "fresh";
  #lo = 0;
  #hi = 0;
  #first = NONE;

  constructor(world: LimitWorld) {
    this.#clock = world.clock;
    this.#chance = world.chance;
    this.#observer = world.observer;
    this.#hash = KeyHash.seeded(world.chance);
    this.#maxSlots = Math.max(MIN_SLOTS, 2 * world.maxKeys);
    this.#table = new KeyTable(SHAPE, world.maxKeys, this);
  }

  get keys(): number {
    return this.#table.count;
  }

  /** Slots held, expired ones that nobody has met yet included. */
  get slots(): number {
    return this.#slab.count;
  }

  peek(value: string | undefined, want: number, params: SlotParams): Taken {
    this.#begin(params);
    this.#open(value);
    if (this.#where === "fresh" && !this.#table.hasRoom()) this.#open(undefined);
    let slot = this.#first;
    let sum = this.#slab.sum(slot);
    while (slot !== NONE && this.#expired(slot)) {
      sum = Math.max(0, sum - this.#slab.tokens(slot));
      slot = this.#slab.next(slot);
    }
    if (slot === NONE) sum = 0; // fractions may have left a crumb
    return this.#answer(fits(sum, want, params), sum, params, "");
  }

  take(value: string | undefined, want: number, params: SlotParams): Taken {
    this.#begin(params);
    this.#open(value);
    this.#expire();
    const id = uuid(this.#chance);
    let sum = this.#slab.sum(this.#first);
    if (!fits(sum, want, params) || !this.#hasSlot()) return this.#answer(false, sum, params, id);
    if (this.#where === "fresh" && !this.#table.insert(this.#lo, this.#hi)) {
      this.#observer.odd("keys_overflow");
      this.#open(undefined);
      this.#expire();
      sum = this.#slab.sum(this.#first);
      if (!fits(sum, want, params)) return this.#answer(false, sum, params, id);
    } else if (this.#where === "fresh") this.#where = "row";
    const slot = this.#slab.take(want, this.#now, this.#first);
    if (this.#first === NONE) {
      this.#first = slot;
      this.#store();
    }
    return this.#answer(true, sum, params, this.#mark(id, slot));
  }

  giveBack(value: string | undefined, _amount: number, id: string, params: SlotParams): boolean {
    this.#begin(params);
    this.#open(value);
    const slot = this.#find(id);
    if (slot === NONE) return false;
    const late = this.#expired(slot);
    this.#free(slot);
    return !late;
  }

  spent(_doubles: Float64Array, _d: number, words: Uint32Array, w: number): boolean {
    const first = words[w + 2] ?? NONE;
    return first === NONE || this.#expired(this.#slab.last(first));
  }

  forget(_doubles: Float64Array, _d: number, words: Uint32Array, w: number): void {
    let first = words[w + 2] ?? NONE;
    while (first !== NONE) first = this.#slab.free(first, first);
  }

  #begin(params: SlotParams): void {
    this.#now = this.#clock.now();
    this.#maxInflightMs = params.maxInflightMs;
  }

  /** Takes a key's slots in hand. */
  #open(value: string | undefined): void {
    if (value === undefined) {
      this.#where = "shared";
      this.#lo = 0;
      this.#hi = 0;
      this.#first = this.#sharedFirst;
      return;
    }
    this.#hash.of(value);
    this.#lo = this.#hash.lo;
    this.#hi = this.#hash.hi;
    const table = this.#table;
    const known = table.find(this.#lo, this.#hi);
    this.#where = known ? "row" : "fresh";
    this.#first = known ? (table.words[table.w + 2] ?? NONE) : NONE;
  }

  /** Notes which slot is the first now. */
  #store(): void {
    if (this.#where === "shared") this.#sharedFirst = this.#first;
    else if (this.#where === "row") {
      if (this.#first === NONE) {
        this.#table.remove(this.#lo, this.#hi);
        return;
      }
      // Eviction may have moved the row since it was opened.
      const table = this.#table;
      if (!table.find(this.#lo, this.#hi)) return;
      table.words[table.w + 2] = this.#first;
    }
  }

  /** Whether one more slot may be held. When not, nobody is let in whom nothing would count. */
  #hasSlot(): boolean {
    if (this.#slab.count < this.#maxSlots) return true;
    if (this.#table.evict() && this.#slab.count < this.#maxSlots) return true;
    this.#observer.odd("keys_overflow");
    return false;
  }

  #expired(slot: number): boolean {
    return this.#slab.start(slot) + this.#maxInflightMs <= this.#now;
  }

  /** Frees what has expired. Noted slot by slot: the table may look at the row before we are done. */
  #expire(): void {
    if (this.#first === NONE || !this.#expired(this.#first)) return;
    while (this.#first !== NONE && this.#expired(this.#first)) this.#free(this.#first);
    if (this.#where === "row" && this.#first === NONE) this.#where = "fresh";
  }

  #free(slot: number): void {
    const first = this.#slab.free(slot, this.#first);
    if (first === this.#first) return;
    this.#first = first;
    this.#store();
  }

  /** The same id, its first digits naming the slot under a mask that the rest of it makes. */
  #mark(id: string, slot: number): string {
    this.#hash.of(id, PLACE_DIGITS);
    const { lo, hi } = this.#hash;
    this.#slab.prove(slot, (lo ^ this.#lo) >>> 0, (hi ^ this.#hi) >>> 0);
    const place = ((slot ^ hi) >>> 0).toString(16).padStart(PLACE_DIGITS, "0");
    return place + id.slice(PLACE_DIGITS);
  }

  /** The slot that an id names, with its list in hand: the key's own, or the shared one. */
  #find(id: string): number {
    if (!ID.test(id)) return NONE;
    this.#hash.of(id, PLACE_DIGITS);
    const { lo, hi } = this.#hash;
    const slot = (Number.parseInt(id.slice(0, PLACE_DIGITS), 16) ^ hi) >>> 0;
    if (this.#slab.proves(slot, (lo ^ this.#lo) >>> 0, (hi ^ this.#hi) >>> 0)) return slot;
    if (!this.#slab.proves(slot, lo, hi)) return NONE;
    this.#open(undefined);
    return slot;
  }

  /** `sum` is what was in flight before this request. */
  #answer(granted: boolean, sum: number, params: SlotParams, id: string): Taken {
    const reply = this.#reply;
    reply.outcome = granted ? "granted" : "refused";
    reply.current = sum;
    reply.remaining = params.max - sum;
    reply.waitMs = 0;
    reply.id = id;
    return reply;
  }
}

/** Tokens fit beside those in flight; a lone request may be larger than the limit, unless that is 0. */
function fits(sum: number, want: number, params: SlotParams): boolean {
  if (params.max <= 0) return false;
  return sum <= SLACK || sum + want <= params.max + SLACK;
}
