// The concurrency slots that this agent owns, by the hash of their keys. The taker chose the id of a slot, so the slot can be
// ended at any owner. It expires some time after its start, on the clock of this agent.

import { AdaptiveLimits } from "#flow/counters/adaptive-limits.ts";
import type { BucketStoreContext } from "#flow/counters/bucket-store.ts";
import { type EngineAnswer, fits, type SlotParams } from "#flow/counters/counter-engine.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";
import { mostSlots, type SlotEnd } from "../slot-ends.ts";
import { type CountedKey, keylessHashOf, type NamedLimiter, textOf } from "./exchange/keys.ts";

/** Parameters of a limiter before its first request. */
const NO_NUMBERS: SlotParams = { max: 0, maxInflightMs: 1 };

/** One concurrency limiter. */
export class OwnedSlotLimiter implements NamedLimiter {
  readonly name: CounterName;
  /** The name as one text. */
  readonly key: string;
  readonly params = undefined;
  /** The upper half of the hash of the count without a key, the same at all agents. */
  readonly keylessHash: number;
  /** The parameters of the last request. */
  slots: SlotParams = NO_NUMBERS;
  /** The slots of each key. */
  readonly keys = new Map<string, KeySlots>();
  /** Learned limits of the keys; present where limits are adaptive. */
  readonly limits: AdaptiveLimits;
  /** Limiters of this agent's own plan. */
  planned = 0;

  constructor(name: CounterName, maxKeys: number) {
    this.name = name;
    this.limits = new AdaptiveLimits(maxKeys);
    this.key = textOf(name);
    this.keylessHash = keylessHashOf(name);
  }

  /**
   * The parameters that apply to a request or hand-over of another agent with these parameters. Those of the own plan
   * take precedence. A limiter with slots therefore always has parameters, which move with its slots.
   */
  agree(params: SlotParams): SlotParams {
    if (this.planned === 0 || this.slots === NO_NUMBERS) this.slots = params;
    return this.slots;
  }
}

/** A slot with its key, as it moves between agents. */
interface OwnedSlot extends CountedKey<OwnedSlotLimiter> {
  readonly id: string;
  readonly tokens: number;
  /** On the monotonic clock of this agent. */
  readonly start: number;
}

interface KeySlots {
  readonly lo: number;
  readonly hi: number;
  /** By id, in order of their start. */
  all: Map<string, { readonly tokens: number; readonly start: number }>;
  sum: number;
  /** Slots came from another agent and may be older than those before them. */
  unordered: boolean;
}

/** All limiters together may have twice as many slots as one limiter has keys, and at least this many. */
const MIN_CAPACITY = 65_536;
/** Keys of a limiter that are examined when it has too many: keys whose slots have all expired make room. */
const MAX_EXAMINED = 16;
/** Shortest time between two sweeps because of too many slots, ms. */
const SWEEP_MS = 1_000;

export class OwnedSlots {
  /** Slots that are held, including expired slots that have not been freed. */
  count = 0;
  readonly #context: BucketStoreContext;
  readonly #most: number;
  /** Limiters that are planned or have slots. */
  readonly #limiters = new Map<string, OwnedSlotLimiter>();
  /** No sweep because of too many slots before this time. */
  #sweepAt = 0;

  constructor(context: BucketStoreContext) {
    this.#context = context;
    this.#most = Math.max(MIN_CAPACITY, 2 * context.maxKeys);
  }

  /** A limiter of this agent's own plan. */
  plan(name: CounterName): OwnedSlotLimiter {
    const limiter = this.known(name);
    limiter.planned++;
    this.#limiters.set(limiter.key, limiter);
    return limiter;
  }

  /** The limiter has left the own plan. Other agents may still hold its slots. */
  unplan(limiter: OwnedSlotLimiter): void {
    limiter.planned--;
    this.#forget(limiter);
  }

  /** A limiter that another agent names. */
  known(name: CounterName): OwnedSlotLimiter {
    return this.#limiters.get(textOf(name)) ?? new OwnedSlotLimiter(name, this.#context.maxKeys);
  }

  take(
    { limiter: given, lo, hi }: CountedKey<OwnedSlotLimiter>,
    want: number,
    id: string,
    params: SlotParams,
    now: number,
  ): EngineAnswer {
    const { limiter, held, current, max } = this.#count(given, lo, hi, params, now);
    const { adaptive } = params;
    if (!fits(current, want, max)) {
      if (adaptive !== undefined) limiter.limits.of(lo, hi, adaptive, now).refused(now);
      return answerOf(false, current, max, id, false);
    }
    if (held >= mostSlots(params) || !this.#hasRoom(limiter, held === 0, now)) {
      this.#context.observer.anomaly("keys_overflow");
      return answerOf(false, current, max, id, true);
    }
    this.#put({ limiter, lo, hi, id, tokens: want, start: now });
    if (adaptive !== undefined) {
      limiter.limits.of(lo, hi, adaptive, now).passed(current + want, now);
    }
    return answerOf(true, current, max, id, false);
  }

  /** The slots and tokens of a key in flight, and its limit. */
  #count(given: OwnedSlotLimiter, lo: number, hi: number, params: SlotParams, now: number) {
    const limiter = this.#limiters.get(given.key) ?? given;
    limiter.slots = params;
    const key = limiter.keys.get(`${lo}:${hi}`);
    if (key !== undefined) this.#expire(limiter, key, now);
    const max = maxOf(limiter, lo, hi, now);
    return { limiter, held: key?.all.size ?? 0, current: key?.sum ?? 0, max };
  }

  /** False when the slot is unknown or expired. */
  end(
    { key: of, id, lifeMs, unused }: SlotEnd<CountedKey<OwnedSlotLimiter>>,
    now: number,
  ): boolean {
    const { limiter: given, lo, hi } = of;
    const limiter = this.#limiters.get(given.key) ?? given;
    const key = limiter.keys.get(`${lo}:${hi}`);
    const slot = key?.all.get(id);
    if (key === undefined || slot === undefined) return false;
    if (!unused) limiter.limits.known(lo, hi)?.ended(now - slot.start, slot.tokens, now);
    this.#free(limiter, key, id);
    return slot.start + lifeMs > now;
  }

  /** Adds a slot that was taken, here or at another agent. */
  #put({ limiter: given, lo, hi, id, tokens, start }: OwnedSlot): KeySlots {
    const limiter = this.#limiters.get(given.key) ?? given;
    const at = `${lo}:${hi}`;
    const key = limiter.keys.get(at) ?? { lo, hi, all: new Map(), sum: 0, unordered: false };
    if (key.all.has(id)) return key;
    limiter.keys.set(at, key);
    this.#limiters.set(limiter.key, limiter);
    key.all.set(id, { tokens, start });
    key.sum += tokens;
    this.count++;
    return key;
  }

  /** A slot that comes from another agent. */
  adopt(slot: OwnedSlot): void {
    if (this.#isFull(this.#context.clock.now())) {
      this.#context.observer.anomaly("keys_overflow");
      return;
    }
    this.#put(slot).unordered = true;
  }

  /** Frees the slots of all limiters that have expired. */
  sweep(now: number): void {
    for (const limiter of this.#limiters.values()) {
      if (limiter.slots === NO_NUMBERS) continue;
      for (const key of limiter.keys.values()) this.#expire(limiter, key, now);
    }
  }

  /** Removes the slots of all keys that other agents own, and passes each to `removed`. Yields after each key. */
  *remove(
    isLost: (lo: number, hi: number) => boolean,
    removed: (slot: OwnedSlot) => void,
  ): Generator<void, void> {
    for (const limiter of this.#limiters.values()) {
      for (const [at, { lo, hi, all }] of limiter.keys) {
        if (isLost(lo, hi)) {
          limiter.keys.delete(at);
          this.count -= all.size;
          for (const [id, slot] of all) removed({ limiter, lo, hi, id, ...slot });
        }
        yield;
      }
      this.#forget(limiter);
    }
  }

  /** Forgets all slots. */
  clear(): void {
    for (const limiter of this.#limiters.values()) {
      limiter.keys.clear();
      limiter.limits.clear();
      this.#forget(limiter);
    }
    this.count = 0;
  }

  #expire(limiter: OwnedSlotLimiter, key: KeySlots, now: number): void {
    if (key.unordered) {
      key.all = new Map([...key.all].sort(([, a], [, b]) => a.start - b.start));
      key.unordered = false;
    }
    const learning = limiter.limits.known(key.lo, key.hi);
    for (const [id, { start, tokens }] of key.all) {
      if (start + limiter.slots.maxInflightMs > now) break;
      learning?.expired(tokens, now);
      this.#free(limiter, key, id);
    }
  }

  #free(limiter: OwnedSlotLimiter, key: KeySlots, id: string): void {
    const slot = key.all.get(id);
    if (slot === undefined) return;
    key.all.delete(id);
    this.count--;
    // Sums of fractions are not exact.
    key.sum = key.all.size === 0 ? 0 : Math.max(0, key.sum - slot.tokens);
    if (key.all.size > 0) return;
    limiter.keys.delete(`${key.lo}:${key.hi}`);
    this.#forget(limiter);
  }

  /** True if one more slot may be held. `fresh`: it is the first of its key. */
  #hasRoom(limiter: OwnedSlotLimiter, fresh: boolean, now: number): boolean {
    if (this.#isFull(now)) return false;
    if (!fresh || limiter.keys.size < this.#context.maxKeys) return true;
    let left = MAX_EXAMINED;
    for (const [at, key] of limiter.keys) {
      if (left-- <= 0) break;
      this.#expire(limiter, key, now);
      // The next time, other keys are examined.
      if (limiter.keys.delete(at)) limiter.keys.set(at, key);
    }
    return limiter.keys.size < this.#context.maxKeys;
  }

  /** True if there are too many slots, not counting expired ones. */
  #isFull(now: number): boolean {
    if (this.count < this.#most) return false;
    if (now < this.#sweepAt) return true;
    this.#sweepAt = now + SWEEP_MS;
    this.sweep(now);
    return this.count >= this.#most;
  }

  #forget(limiter: OwnedSlotLimiter): void {
    if (limiter.planned === 0 && limiter.keys.size === 0) {
      this.#limiters.delete(limiter.key);
    }
  }
}

/** The most tokens in flight of a key, now. */
function maxOf({ slots, limits }: OwnedSlotLimiter, lo: number, hi: number, now: number): number {
  const { max, adaptive } = slots;
  return adaptive === undefined ? max : limits.limit(lo, hi, adaptive, now);
}

function answerOf(
  granted: boolean,
  current: number,
  max: number,
  id: string,
  full: boolean,
): EngineAnswer {
  const outcome = granted ? "granted" : "refused";
  return { outcome, remaining: max - current, current, waitMs: 0, id, full };
}
