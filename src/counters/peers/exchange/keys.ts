// Encodes the keys of messages between agents in columns. Each message contains each limiter once.

import { createHash } from "node:crypto";
import { Fault } from "#base/fault.ts";
import type { BucketParams, SlotParams } from "#flow/counters/counter-engine.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";
import type { AdaptiveBounds } from "#flow/rules.ts";

/** A limiter by its name, which is the same at all agents, and the parameters that it counts by. */
export interface NamedLimiter {
  readonly name: CounterName;
  readonly params: BucketParams | undefined;
  /** The parameters of a concurrency limiter, which has no buckets. */
  readonly slots?: SlotParams | undefined;
}

/** The name as one unique text. */
export function textOf({ policyName, name }: CounterName): string {
  return `${policyName.length}:${policyName}${name}`;
}

/** The upper half of the hash of a count without a key. All agents compute the same, so these counts are spread evenly. */
export function keylessHashOf(name: CounterName): number {
  return createHash("sha256").update(textOf(name)).digest().readUInt32LE();
}

/** One counted key of a limiter. */
export interface CountedKey<Limiter> {
  readonly limiter: Limiter;
  /** Hash of the key under the seed of the group. For the count without a key, `lo` is 0 and `hi` identifies the limiter. */
  readonly lo: number;
  readonly hi: number;
}

export function keysOf(keys: readonly CountedKey<NamedLimiter>[]) {
  const indexes = new Map<NamedLimiter, number>();
  const limiter = keys.map((key) => {
    const known = indexes.get(key.limiter);
    if (known !== undefined) return known;
    indexes.set(key.limiter, indexes.size);
    return indexes.size - 1;
  });
  return {
    limiters: [...indexes.keys()].map(({ name, params, slots }) => ({
      ...name,
      ...(slots === undefined
        ? params
        : { capacity: slots.max, maxInflightMs: slots.maxInflightMs, ...adaptiveOf(slots) }),
    })),
    limiter,
    keyLo: keys.map(({ lo }) => lo),
    keyHi: keys.map(({ hi }) => hi),
  };
}

interface Columns {
  readonly limiters: readonly (CounterName &
    Omit<BucketParams, "lazySyncs"> &
    Pick<SlotParams, "maxInflightMs"> & {
      readonly adaptive: Omit<AdaptiveBounds, "max"> | null;
    })[];
  readonly limiter: readonly number[];
  readonly keyLo: readonly number[];
  readonly keyHi: readonly number[];
}

/** @throws Fault INVALID_ARGUMENT */
export function readKeys(
  { limiters, limiter, keyLo, keyHi }: Columns,
  others: readonly (readonly number[])[],
): readonly CountedKey<NamedLimiter>[] {
  if ([keyLo, keyHi, ...others].some(({ length }) => length !== limiter.length)) {
    throw invalid("lists of one length, got several");
  }
  const named = limiters.map(({ policyName, name, adaptive, ...numbers }): NamedLimiter => {
    const { maxInflightMs, ...bucket } = numbers;
    if (maxInflightMs !== 0) {
      const slots = slotsOf(numbers.capacity, maxInflightMs, adaptive);
      return { name: { policyName, name }, params: undefined, slots };
    }
    if (!isValid(bucket)) throw invalid("numbers of a limiter >= 0, got others");
    // Lazy synchronisation concerns only the agent that takes: messages are always exact.
    return { name: { policyName, name }, params: Object.freeze({ ...bucket, lazySyncs: 0 }) };
  });
  return limiter.map((index, at) => {
    const known = named[index];
    if (known === undefined) throw invalid(`the index of a limiter, got ${index}`);
    return { limiter: known, lo: keyLo[at] ?? 0, hi: keyHi[at] ?? 0 };
  });
}

function slotsOf(
  max: number,
  maxInflightMs: number,
  given: Omit<AdaptiveBounds, "max"> | null,
): SlotParams {
  const numbers = [max, maxInflightMs];
  if (!numbers.every((number) => Number.isFinite(number) && number >= 0)) {
    throw invalid("numbers of a limiter >= 0, got others");
  }
  if (given === null) return Object.freeze({ max, maxInflightMs });
  const { min, start, tolerance } = given;
  if (!(min >= 0 && min <= start && start <= max && tolerance > 1)) {
    throw invalid("bounds of an adaptive limit in order, got others");
  }
  const adaptive = Object.freeze({ min, start, tolerance, max });
  return Object.freeze({ max, maxInflightMs, adaptive });
}

/** `max` is the capacity. */
function adaptiveOf({ adaptive }: SlotParams) {
  if (adaptive === undefined) return {};
  const { min, start, tolerance } = adaptive;
  return { adaptive: { min, start, tolerance } };
}

function isValid(params: Omit<BucketParams, "lazySyncs">): boolean {
  const { capacity, amount, intervalMs, maxIdleMs } = params;
  const numbers = [capacity, amount, intervalMs, maxIdleMs];
  return intervalMs > 0 && numbers.every((number) => Number.isFinite(number) && number >= 0);
}

export function finite(numbers: readonly number[]): void {
  if (!numbers.every(Number.isFinite)) throw invalid("finite numbers, got others");
}

export function invalid(wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `message of another agent: wanted ${wanted}`);
}
