// Counts that the agents of a group share. This room declares the interface, and the room `counters` implements it.

import type { AdaptiveSummary } from "./adaptive-limits.ts";
import type { BucketEngine, BucketParams, CounterEngine, SlotParams } from "./counter-engine.ts";

/** Identifies the counts of one limiter: equal on all agents of a group that have the same rules. */
export interface CounterName {
  readonly policyName: string;
  /** Distinguishes the limiters of the policy by what their numbers mean. Any text. */
  readonly name: string;
}

/** One limiter's counts, which other agents change as well. Answers later, or immediately that it cannot decide. */
export interface SharedEngine<Params> extends CounterEngine<Params> {
  /** Makes new numbers count from now on. */
  adopt(params: Params): void;
  /** True while no other agent takes from these counts. Absent where that is not known. */
  readonly exclusive?: boolean;
  /** Learned limits of the keys that this agent counts; only for slots with adaptive limits. */
  adaptive?(now: number): AdaptiveSummary | undefined;
  /** The limiter has left the plan. Its counts stay, because other agents may still use them. */
  close(): void;
}

export interface SharedBucketEngine extends SharedEngine<BucketParams>, BucketEngine {}

/** Opening the counts of a limiter must not have an effect by itself: rules are also tried without coming into force. */
export interface SharedCounters {
  /** The name of an engine without adaptive limits: rules with such limits are refused. */
  readonly fixedLimits?: string;
  buckets(name: CounterName): SharedBucketEngine;
  /** A slot that one agent took can be given back by every other one. */
  slots(name: CounterName): SharedEngine<SlotParams>;
}
