// Encodes requests between agents of a group, and their replies, in columns.

import { decode, encode } from "#wire/protobuf/messages.ts";
import type { BucketReply, BucketRequest, LeaseRequest } from "../../leases/bucket-owner.ts";
import { type CountedKey, finite, invalid, keysOf, type NamedLimiter, readKeys } from "./keys.ts";

/** With their numbers in messages. */
const OUTCOMES = { refused: 0, granted: 1, retry: 2 } as const;

/** Amounts that end a slot, and that end a slot whose flow never ran. Any negative amount ends the slot. */
const END = -1;
const UNUSED = -2;

/** A request of one agent to another about one bucket: tokens to take, give back or lease. */
export interface BucketMessage<Limiter extends NamedLimiter = NamedLimiter>
  extends CountedKey<Limiter> {
  readonly request: BucketRequest;
}

/** A slot that is taken. */
export interface SlotTake<Limiter extends NamedLimiter = NamedLimiter> extends CountedKey<Limiter> {
  readonly kind: "take";
  readonly request?: undefined;
  /** Tokens. */
  readonly amount: number;
  readonly id: string;
}

/** A slot that is ended. */
interface SlotEnd extends CountedKey<NamedLimiter> {
  readonly kind: "end";
  readonly request?: undefined;
  readonly id: string;
  /** The flow did not run, so the time that the slot was held is not a latency. */
  readonly unused: boolean;
}

export type SlotMessage = SlotTake | SlotEnd;

export type Take = BucketMessage | SlotMessage;

/** `retry`: the agent does not own the key, or does not own it yet. A take of a slot counts as one run. */
export type TakeReply = BucketReply | "retry";

/** One operation of a message: a run, tokens that are returned, or a slot. */
interface Operation {
  readonly take: Take;
  readonly amount: number;
  readonly times: number;
  readonly id: string;
  /** True if the reply says how often the operation was granted. */
  readonly wants: boolean;
}

/** The operations that a take consists of. Both sides of a link must derive the same list. */
function operationsOf(take: Take): readonly Operation[] {
  if (take.request === undefined) {
    const amount = take.kind === "take" ? take.amount : take.unused ? UNUSED : END;
    return [{ take, amount, times: 1, id: take.id, wants: true }];
  }
  const { runs, back } = take.request;
  const all = runs.map(({ want, times }) => ({ take, amount: want, times, id: "", wants: true }));
  if (back > 0) all.unshift({ take, amount: -back, times: 1, id: "", wants: false });
  return all.length > 0 ? all : [{ take, amount: 0, times: 0, id: "", wants: false }];
}

export function writeTakes(takes: readonly Take[]): Uint8Array {
  const leases: (LeaseRequest & { readonly first: number; readonly count: number })[] = [];
  const operations: Operation[] = [];
  for (const take of takes) {
    const own = operationsOf(take);
    const lease = take.request?.lease;
    if (lease !== undefined) {
      leases.push({ ...lease, first: operations.length, count: own.length });
    }
    operations.push(...own);
  }
  const owes = ({ take }: Operation) => take.request?.overdraft === "owe";
  return encode("sluice.fleet.v1.TakeRequest", {
    ...keysOf(operations.map(({ take }) => take)),
    amount: operations.map(({ amount }) => amount),
    // Empty where all are buckets.
    id: operations.some(({ id }) => id !== "") ? operations.map(({ id }) => id) : [],
    times: operations.some(({ times }) => times !== 1) ? operations.map(({ times }) => times) : [],
    owe: operations.some(owes) ? operations.map(owes) : [],
    leases,
  });
}

/** @throws Fault INVALID_ARGUMENT */
export function readTakes(bytes: Uint8Array): readonly Take[] {
  const { amount, id, times, owe, leases, ...keys } = decode("sluice.fleet.v1.TakeRequest", bytes);
  finite(amount);
  const all = readKeys(keys, [amount]);
  const takes: Take[] = [];
  let next = 0;
  for (let at = 0; at < all.length; ) {
    const key = all[at] as CountedKey<NamedLimiter>;
    const given = leases[next]?.first === at ? leases[next++] : undefined;
    const end = at + (given?.count ?? 1);
    const lease = given === undefined ? undefined : leaseOf(given, all.slice(at, end));
    const first = amount[at] ?? 0;
    if (key.limiter.slots === undefined) {
      const back = Math.max(0, -first);
      const runs = [];
      for (let n = back > 0 ? at + 1 : at; n < end; n++) {
        const run = { want: amount[n] ?? 0, times: times[n] ?? 1 };
        if (run.want < 0) throw invalid("tokens that come back first, got them after others");
        if (run.times > 0 || end > at + 1) runs.push(run);
      }
      const overdraft = owe[at] === true ? "owe" : "refuse";
      const request = { runs, back, overdraft, lease } as const;
      takes.push({ ...key, request });
    } else {
      const own = { ...key, id: id[at] ?? "" };
      const end = { kind: "end", ...own, unused: first === UNUSED } as const;
      takes.push(first < 0 ? end : { kind: "take", ...own, amount: first });
    }
    at = end;
  }
  if (next < leases.length) throw invalid("leases in order of their operations, got others");
  return takes;
}

/** A lease without its place in the message. `keys` are those of its operations. */
function leaseOf(
  { first: _, count, ...lease }: LeaseRequest & { readonly first: number; readonly count: number },
  keys: readonly CountedKey<NamedLimiter>[],
): LeaseRequest {
  const numbers = Object.values(lease);
  if (!numbers.every((number) => Number.isFinite(number) && number >= 0) || lease.unit <= 0) {
    throw invalid("numbers of a lease >= 0, got others");
  }
  const [of] = keys;
  const same = keys.every(
    ({ limiter, lo, hi }) => limiter === of?.limiter && lo === of.lo && hi === of.hi,
  );
  if (keys.length < count || !same || of === undefined || of.limiter.slots !== undefined) {
    throw invalid("a lease of one bucket, got another one");
  }
  return lease;
}

/** `replies` answer `takes`, in order. */
export function writeReplies(takes: readonly Take[], replies: readonly TakeReply[]): Uint8Array {
  const outcome: (typeof OUTCOMES)[keyof typeof OUTCOMES][] = [];
  const remaining: number[] = [];
  const waitMs: number[] = [];
  const full: boolean[] = [];
  const granted: number[] = [];
  const inFlight: number[] = [];
  let adaptive = false;
  const leases: { readonly leased: number; readonly recall: boolean }[] = [];
  let once = true;
  for (const [at, take] of takes.entries()) {
    const reply = replies[at] ?? "retry";
    const known = reply === "retry" ? NOTHING : reply;
    let run = 0;
    for (const { times, wants } of operationsOf(take)) {
      const count = wants ? (known.granted[run++] ?? 0) : times;
      outcome.push(OUTCOMES[reply === "retry" ? "retry" : count < times ? "refused" : "granted"]);
      granted.push(count);
      remaining.push(known.tokens);
      waitMs.push(known.waitMs);
      full.push(known.full ?? false);
      inFlight.push(known.inFlight ?? 0);
      if (take.limiter.slots?.adaptive !== undefined) adaptive = true;
      if (times !== 1) once = false;
    }
    if (take.request?.lease !== undefined) {
      leases.push({ leased: known.leased, recall: known.recall });
    }
  }
  return encode("sluice.fleet.v1.TakeResponse", {
    outcome,
    remaining,
    waitMs,
    leases,
    full: full.includes(true) ? full : [],
    granted: once ? [] : granted,
    inFlight: adaptive ? inFlight : [],
  });
}

const NOTHING: BucketReply = { granted: [], tokens: 0, waitMs: 0, leased: 0, recall: false };

/**
 * The replies to `takes`, in order; undefined for a missing reply. An unknown outcome counts as `retry`.
 * @throws Fault INVALID_ARGUMENT
 */
export function readReplies(
  takes: readonly Take[],
  bytes: Uint8Array,
): readonly (TakeReply | undefined)[] {
  const { outcome, remaining, waitMs, full, granted, leases, inFlight } = decode(
    "sluice.fleet.v1.TakeResponse",
    bytes,
  );
  let at = 0;
  let next = 0;
  return takes.map((take) => {
    const counts: number[] = [];
    let wait: number | undefined;
    let state: "answered" | "retry" | "missing" = "answered";
    for (const { times, wants } of operationsOf(take)) {
      const passed = outcome[at] === OUTCOMES.granted;
      const count = granted[at] ?? (passed ? 1 : 0);
      if (wants) counts.push(Math.min(count, times));
      // The first refused take determines the wait.
      if (!passed) wait ??= waitMs[at];
      if (outcome[at] === undefined) state = "missing";
      else if (!passed && outcome[at] !== OUTCOMES.refused) state = "retry";
      at++;
    }
    const lease = take.request?.lease === undefined ? undefined : leases[next++];
    if (state !== "answered") return state === "retry" ? state : undefined;
    const last = at - 1;
    return {
      granted: counts,
      tokens: remaining[last] ?? 0,
      waitMs: wait ?? waitMs[last] ?? 0,
      full: full[last] ?? false,
      leased: lease?.leased ?? 0,
      recall: lease?.recall ?? false,
      inFlight: inFlight[last],
    };
  });
}
