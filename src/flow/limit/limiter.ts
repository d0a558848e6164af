// The interface that the check calls at each stage. Every plan creates its limiters anew from rules; their state outlives
// the plan.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { SharedCounters } from "../counters/shared-counters.ts";
import type { Component, Decision, Flow, Grant, Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { LimiterNumbers, SettlementRule } from "../rules.ts";

export interface Limiter {
  readonly component: Component;
  /** Decides, and takes when it grants. Pending only where the engine is remote or the limiter queues. */
  take(flow: Flow, labels: Labels, now: number): Decision | Pending<Decision>;
  /** Decides without taking anything. Present in limiters that only draw lots, such as samplers. */
  draw?(labels: Labels): Decision;
  /** Gives back the tokens or slot of a grant. */
  undo(grant: Grant): void;
  /** Ends one slot; false when it is unknown or expired. Absent in limiters without slots. */
  end?(grant: Grant): boolean | Pending<boolean>;
  /** Rule by which flows settle their estimates. Undefined or absent where flows take no estimates. */
  readonly settlement?: SettlementRule | undefined;
  /** Replaces the estimate of a flow with its true cost. Present where `settlement` is. */
  settle?(grant: Grant, cost: number): void;
  /** Adopts new numbers. Undefined when they were removed: its failure mode then answers. */
  decide(numbers: LimiterNumbers | undefined): void;
  /** Reports its gauges, which are live, to the observer. Called when a new plan contains it. Absent where there are none. */
  readonly showGauges?: (() => void) | undefined;
}

/** A limiter that takes an estimate, which is settled when the flow ends. */
export type SettlingLimiter = Limiter &
  Required<Pick<Limiter, "settle">> & {
    readonly settlement: SettlementRule;
  };

export function settles(limiter: Limiter): limiter is SettlingLimiter {
  return limiter.settlement !== undefined;
}

export type DrawingLimiter = Limiter & Required<Pick<Limiter, "draw">>;

export function drawsLots(limiter: Limiter): limiter is DrawingLimiter {
  return "draw" in limiter;
}

/** A limiter whose grants are slots, which a flow holds until it ends. */
export type SlotLimiter = Limiter & Required<Pick<Limiter, "end">>;

export function holdsSlots(limiter: Limiter): limiter is SlotLimiter {
  return "end" in limiter;
}

/** The dependencies of limiters besides their rule and state. */
export interface LimiterContext {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
  /** Maximum number of keys that one limiter holds at a time. */
  readonly maxKeys: number;
  /** The engine through which agents share their counts; absent where each counts in process. */
  readonly sharedCounters?: SharedCounters | undefined;
}
