// The interface between a limiter and the engine that keeps its counts. The local engines answer immediately; one
// behind a network answers later, or reports that it cannot decide.

import type { InQueue, Pending } from "../flow.ts";
import type { AdaptiveBounds } from "../rules.ts";

/** An engine's answer to one take. Borrowed: valid until the same engine is asked again. */
export interface EngineAnswer {
  readonly outcome: "granted" | "refused" | "undecided";
  readonly remaining: number;
  readonly current: number;
  /** Milliseconds until the wanted tokens may be available; 0 if now, never, or unknown. */
  readonly waitMs: number;
  /** The engine's identifier of the grant; needed to give it back. */
  readonly id: string;
  /** Slots only: the engine has no room for this key and answered by a count that other keys share. */
  readonly full: boolean;
}

/** Parameters of all buckets of one limiter. All numbers are finite and >= 0, `intervalMs` > 0. */
export interface BucketParams {
  readonly capacity: number;
  /** Tokens per interval. */
  readonly amount: number;
  readonly intervalMs: number;
  /** Fills continuously; otherwise by whole amounts at the ends of intervals. */
  readonly continuous: boolean;
  /** The fill of a full bucket that is used starts only after the time that a complete fill takes. */
  readonly delayed: boolean;
  /**
   * Concerns engines that store keys until they expire. A bucket that never fills is forgotten when it has been unused
   * for this long; 0 means never. Other buckets are forgotten when they are full.
   */
  readonly maxIdleMs: number;
  /**
   * Number of times per interval that each agent which shares the bucket reports the tokens admitted on credit. 0: every
   * flow is counted before it passes.
   */
  readonly lazySyncs: number;
}

export function sameParams(one: BucketParams, other: BucketParams): boolean {
  return (
    one.capacity === other.capacity &&
    one.amount === other.amount &&
    one.intervalMs === other.intervalMs &&
    one.continuous === other.continuous &&
    one.delayed === other.delayed &&
    one.maxIdleMs === other.maxIdleMs &&
    one.lazySyncs === other.lazySyncs
  );
}

/** Parameters of all slots of one limiter. */
export interface SlotParams {
  /** Most tokens in flight; finite, >= 0. Of an adaptive limit, the most that it may ever be. */
  readonly max: number;
  /** Undefined for a limit that is always `max`. */
  readonly adaptive?: AdaptiveBounds | undefined;
  /** A slot that no caller ends is freed after this long. */
  readonly maxInflightMs: number;
}

/** Token amounts this close count as equal: sums of fractions are not exact. */
export const SLACK = 1e-9;

/** True if the tokens fit beside those in flight. A lone request may exceed the limit, unless that is 0. */
export function fits(sum: number, want: number, max: number): boolean {
  if (max <= 0) return false;
  return sum <= SLACK || sum + want <= max + SLACK;
}

/**
 * Counts of one limiter by label value; `undefined` is the one count of a limiter without a key. `params` is
 * an immutable object that is replaced when numbers or rule change. `now` is a reading of `Clock.now()`.
 */
export interface CounterEngine<Params> {
  /**
   * `queued` is undefined for a flow that is not queued yet. A remote engine can prefetch tokens for the flows behind it,
   * which it grants to takes that are made while its answer is being delivered.
   */
  take(
    value: string | undefined,
    want: number,
    params: Params,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer>;
  /**
   * False when the engine does not know the grant, or cannot be asked. `unused`: the flow did not run, so the time since
   * the grant is not a latency.
   */
  giveBack(
    value: string | undefined,
    amount: number,
    id: string,
    params: Params,
    unused?: boolean,
  ): boolean | Pending<boolean>;
}

/** An engine that never waits, and so can answer in place of one that is unavailable. */
export interface LocalEngine<Params> extends CounterEngine<Params> {
  take(value: string | undefined, want: number, params: Params, now: number): EngineAnswer;
  giveBack(
    value: string | undefined,
    amount: number,
    id: string,
    params: Params,
    unused?: boolean,
  ): boolean;
}

/** An engine that counts tokens. A flow may cost more tokens than it took. */
export interface BucketEngine extends CounterEngine<BucketParams> {
  /**
   * Takes tokens even if the bucket lacks them; later fills pay the debt first. `id` is that of the answer by which the
   * flow passed.
   */
  charge(value: string | undefined, amount: number, id: string, params: BucketParams): void;
}

/** The answer of an engine that was not asked. The failure mode of the limiter answers in its place. */
export const UNDECIDED: EngineAnswer = Object.freeze({
  outcome: "undecided",
  remaining: 0,
  current: 0,
  waitMs: 0,
  id: "",
  full: false,
});

/** An answer that its engine fills again each time, so that answering allocates nothing. */
export class ReusedAnswer implements EngineAnswer {
  outcome: "granted" | "refused" | "undecided" = "granted";
  remaining = 0;
  current = 0;
  waitMs = 0;
  id = "";
  full = false;

  /** The answer of a bucket with this many tokens; negative when it owes tokens. */
  ofBucket(
    outcome: "granted" | "refused",
    tokens: number,
    capacity: number,
    waitMs: number,
  ): EngineAnswer {
    this.outcome = outcome;
    this.remaining = Math.min(capacity, Math.max(0, tokens));
    this.current = capacity - this.remaining;
    this.waitMs = waitMs;
    return this;
  }
}
