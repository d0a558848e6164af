// The interfaces that the check calls at each stage: limiters, lookups and shadows. Every plan creates them anew from
// rules; their state outlives the plan.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { SharedCounters } from "../counters/shared-counters.ts";
import type { Component, Decision, Flow, Grant, LookupHit, Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { LimiterNumbers, SettlementRule } from "../rules.ts";

/** May refuse a flow. Belongs to a stage of kind `limit`. */
export interface Limiter {
  readonly component: Component;
  /** Returns the answer that a take at `now` would get. Changes nothing. */
  peek(flow: Flow, labels: Labels, now: number): Decision;
  /** Decides, and takes when it grants. Pending only where the engine is remote or the limiter queues. */
  take(flow: Flow, labels: Labels, now: number): Decision | Pending<Decision>;
  /** Gives back what a decision of this limiter took. */
  undo(grant: Grant): void;
  /** Ends one slot; false when it is unknown or expired. Absent in limiters without slots. */
  end?(grant: Grant): boolean | Pending<boolean>;
  /** Rule by which flows settle their estimates. Undefined or absent where they cost what they took. */
  readonly settlement?: SettlementRule | undefined;
  /** Makes the cost of a flow that has ended take the place of what it took. Present where `settlement` is. */
  settle?(grant: Grant, cost: number): void;
  /** Adopts new numbers. Undefined when they were removed: its failure mode then answers. */
  decide(numbers: LimiterNumbers | undefined): void;
  /** Reports its gauges, which are live, to the observer. Called when it is in a new plan. Absent where there are none. */
  readonly showGauges?: (() => void) | undefined;
}

/** A limiter that takes an estimate, which is settled when the flow ends. */
export interface SettlingLimiter extends Limiter {
  readonly settlement: SettlementRule;
  settle(grant: Grant, cost: number): void;
}

export function settles(limiter: Limiter): limiter is SettlingLimiter {
  return limiter.settlement !== undefined;
}

/** A limiter whose grants are slots, which a flow holds until it ends. */
export type SlotLimiter = Limiter & Required<Pick<Limiter, "end">>;

export function holdsSlots(member: StageMember): member is SlotLimiter {
  return "end" in member;
}

/** May end a check early with an answer it has. Belongs to a stage of kind `lookup`. */
export interface Lookup {
  readonly component: Component;
  /** The answer for this flow, or undefined for a miss. A lookup that fails or is late is a miss. */
  find(
    flow: Flow,
    labels: Labels,
    now: number,
  ): LookupHit | undefined | Pending<LookupHit | undefined>;
  /** Adopts new numbers. Absent in kinds that no controller decides about, such as caches. */
  decide?(numbers: LimiterNumbers | undefined): void;
}

/** Sees every flow that reaches its stage and never changes the answer. Belongs to a stage of kind `observe`. */
export interface Shadow {
  readonly component: Component;
  observe(flow: Flow, labels: Labels, now: number): void;
  /** Adopts new numbers. Absent in kinds that no controller decides about. */
  decide?(numbers: LimiterNumbers | undefined): void;
}

export type StageMember = Limiter | Lookup | Shadow;

/** The dependencies of limiters besides their rule and state. */
export interface LimiterContext {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
  /** Most keys of one limiter that are held at one time. */
  readonly maxKeys: number;
  /** The engine through which agents share their counts; absent where each counts in process. */
  readonly sharedCounters?: SharedCounters | undefined;
}
