// The messages between agents of a group: takes and buckets as lists of columns, limiters once for each message.

import { Fault } from "#base/fault.ts";
import type { BucketParams, SlotParams } from "#flow/counters/counter-engine.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";

/** With their numbers in messages. */
const PURPOSES = { "hand over": 0, copy: 1, leave: 2 } as const;
const OUTCOMES = { refused: 0, granted: 1, retry: 2 } as const;

/** What a message with buckets is for. */
export type Purpose = keyof typeof PURPOSES;
export type Outcome = keyof typeof OUTCOMES;

/** A limiter as its agents name it, with the numbers that they count by. */
export interface NamedLimiter {
  readonly name: CounterName;
  readonly params: BucketParams | undefined;
  /** Those of a concurrency limiter, which has no buckets. */
  readonly slots?: SlotParams | undefined;
}

interface Key<Limiter> {
  readonly limiter: Limiter;
  /** Hash of the key under the seed of the group; 0 and 0 for the bucket without a key. */
  readonly lo: number;
  readonly hi: number;
}

/** One take. */
export interface Take<Limiter extends NamedLimiter = NamedLimiter> extends Key<Limiter> {
  /** Tokens; negative: they come back, or the slot ends. */
  readonly amount: number;
  /** Of the slot of a concurrency limiter; empty for buckets. */
  readonly id: string;
  /** What comes back was taken where keys share a bucket. */
  readonly overflow: boolean;
}

export interface TakeReply {
  readonly outcome: Outcome;
  readonly remaining: number;
  readonly waitMs: number;
  readonly full: boolean;
}

/** The state of one bucket, or one slot of a concurrency limiter. */
export interface Bucket<Limiter extends NamedLimiter = NamedLimiter> extends Key<Limiter> {
  /** Tokens in the bucket, or in the slot. */
  readonly available: number;
  /** Milliseconds from now to the time up to which the bucket is filled, or to the start of the slot. */
  readonly filledMs: number;
  /** Of the slot; empty for buckets. */
  readonly id: string;
}

export interface StoreMessage {
  readonly from: string;
  readonly number: number;
  readonly purpose: Purpose;
  readonly last: boolean;
  readonly buckets: readonly Bucket[];
}

export function writeTakes(takes: readonly Take[]): Uint8Array {
  return encode("sluice.fleet.v1.TakeRequest", {
    ...keysOf(takes),
    amount: takes.map(({ amount }) => amount),
    overflow: takes.some(({ overflow }) => overflow) ? takes.map(({ overflow }) => overflow) : [],
    id: idsOf(takes),
  });
}

/** @throws Fault INVALID_ARGUMENT */
export function readTakes(bytes: Uint8Array): readonly Take[] {
  const { amount, overflow, id, ...keys } = decode("sluice.fleet.v1.TakeRequest", bytes);
  finite(amount);
  return readKeys(keys, [amount]).map((key, at) => ({
    ...key,
    amount: amount[at] ?? 0,
    overflow: overflow[at] ?? false,
    id: id[at] ?? "",
  }));
}

export function writeReplies(replies: readonly TakeReply[]): Uint8Array {
  return encode("sluice.fleet.v1.TakeResponse", {
    outcome: replies.map(({ outcome }) => OUTCOMES[outcome]),
    remaining: replies.map(({ remaining }) => remaining),
    waitMs: replies.map(({ waitMs }) => waitMs),
    full: replies.some(({ full }) => full) ? replies.map(({ full }) => full) : [],
  });
}

/** @throws Fault INVALID_ARGUMENT */
export function readReplies(bytes: Uint8Array): readonly TakeReply[] {
  const { outcome, remaining, waitMs, full } = decode("sluice.fleet.v1.TakeResponse", bytes);
  return outcome.map((number, at) => ({
    outcome: nameOf(OUTCOMES, number) ?? "retry",
    remaining: remaining[at] ?? 0,
    waitMs: waitMs[at] ?? 0,
    full: full[at] ?? false,
  }));
}

export function writeStore({ from, number, purpose, last, buckets }: StoreMessage): Uint8Array {
  return encode("sluice.fleet.v1.StoreRequest", {
    ...{ from, number, last, purpose: PURPOSES[purpose] },
    ...keysOf(buckets),
    available: buckets.map(({ available }) => available),
    filledMs: buckets.map(({ filledMs }) => filledMs),
    id: idsOf(buckets),
  });
}

/** @throws Fault INVALID_ARGUMENT */
export function readStore(bytes: Uint8Array): StoreMessage {
  const { from, number, purpose, last, available, filledMs, id, ...keys } = decode(
    "sluice.fleet.v1.StoreRequest",
    bytes,
  );
  finite(available);
  finite(filledMs);
  const known = nameOf(PURPOSES, purpose);
  if (known === undefined) throw invalid(`a known purpose, got ${purpose}`);
  const buckets = readKeys(keys, [available, filledMs]).map((key, at) => ({
    ...key,
    available: available[at] ?? 0,
    filledMs: filledMs[at] ?? 0,
    id: id[at] ?? "",
  }));
  return { from, number, purpose: known, last, buckets };
}

/** Empty where all are buckets. */
function idsOf(all: readonly { readonly id: string }[]): readonly string[] {
  return all.some(({ id }) => id !== "") ? all.map(({ id }) => id) : [];
}

function keysOf(keys: readonly Key<NamedLimiter>[]) {
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
        : { capacity: slots.max, maxInflightMs: slots.maxInflightMs }),
    })),
    limiter,
    keyLo: keys.map(({ lo }) => lo),
    keyHi: keys.map(({ hi }) => hi),
  };
}

interface Columns {
  readonly limiters: readonly (CounterName &
    Omit<BucketParams, "lazySyncs"> &
    Pick<SlotParams, "maxInflightMs">)[];
  readonly limiter: readonly number[];
  readonly keyLo: readonly number[];
  readonly keyHi: readonly number[];
}

function readKeys(
  { limiters, limiter, keyLo, keyHi }: Columns,
  others: readonly (readonly number[])[],
): readonly Key<NamedLimiter>[] {
  if ([keyLo, keyHi, ...others].some(({ length }) => length !== limiter.length)) {
    throw invalid("lists of one length, got several");
  }
  const named = limiters.map(({ policyName, name, maxInflightMs, ...numbers }): NamedLimiter => {
    if (maxInflightMs !== 0) {
      const slots = { max: numbers.capacity, maxInflightMs };
      if (!Object.values(slots).every((number) => Number.isFinite(number) && number >= 0)) {
        throw invalid("numbers of a limiter >= 0, got others");
      }
      return { name: { policyName, name }, params: undefined, slots: Object.freeze(slots) };
    }
    // When agents report is their own matter.
    const params = { ...numbers, lazySyncs: 0 };
    if (!isValid(params)) throw invalid("numbers of a limiter >= 0, got others");
    // What travels is always exact.
    return { name: { policyName, name }, params: Object.freeze({ ...params, lazySyncs: 0 }) };
  });
  return limiter.map((index, at) => {
    const known = named[index];
    if (known === undefined) throw invalid(`the index of a limiter, got ${index}`);
    return { limiter: known, lo: keyLo[at] ?? 0, hi: keyHi[at] ?? 0 };
  });
}

function nameOf<Names extends Readonly<Record<string, number>>>(
  names: Names,
  number: number,
): keyof Names | undefined {
  return Object.keys(names).find((name) => names[name] === number);
}

function isValid(params: Omit<BucketParams, "lazySyncs">): boolean {
  const { capacity, amount, intervalMs, maxIdleMs } = params;
  const numbers = [capacity, amount, intervalMs, maxIdleMs];
  return intervalMs > 0 && numbers.every((number) => Number.isFinite(number) && number >= 0);
}

function finite(numbers: readonly number[]): void {
  if (!numbers.every(Number.isFinite)) throw invalid("finite numbers, got others");
}

function invalid(wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `message of another agent: wanted ${wanted}`);
}
