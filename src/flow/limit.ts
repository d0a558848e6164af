// What every limiter is to the check: something to ask, take from and give back to. Where its numbers
// live is its engine's business: a rule is bound anew for every plan, its state outlives plans.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Component, Decision, Flow, Grant, LimiterKind, Pending } from "./flow.ts";
import type { Labels, Slots } from "./label.ts";
import { ConcurrencyLimiter, ConcurrencyState } from "./limit/concurrency-limiter.ts";
import { RateLimiter, RateState } from "./limit/rate-limiter.ts";
import { Sampler, SamplerState } from "./limit/sampler.ts";
import type { Observer } from "./observe.ts";
import type { LimiterNumbers, LimiterRule } from "./rules.ts";

export interface Limiter {
  readonly component: Component;
  /** What a take would say now. Changes nothing. */
  peek(flow: Flow, labels: Labels): Decision;
  /** Asks and takes. Pending only where the engine is remote or the limiter queues. */
  take(flow: Flow, labels: Labels): Decision | Pending<Decision>;
  /** Gives back what a decision of this limiter took. */
  undo(grant: Grant): void;
  /** Ends one slot; false when it is unknown or expired. Limiters without slots are never asked. */
  end?(grant: Grant): boolean;
  /** New numbers, or undefined when the decision was removed (open again, unless documented otherwise). */
  decide(numbers: LimiterNumbers | undefined): void;
}

/** What limiters need of the world around them. */
export interface LimitWorld {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
  /** Keys that one limiter tells apart; further ones share one strict bucket. */
  readonly maxKeys: number;
}

/** Buckets or slots, and the numbers last decided. Kept across plans by `limiterIdentity`. */
export type LimiterState = RateState | ConcurrencyState | SamplerState;

/** Reported kind of a rule: a sampler in ramp mode stands in a stage of its own. */
export function limiterKind(rule: LimiterRule): LimiterKind {
  return rule.kind === "sampler" && rule.rampMode ? "ramp_sampler" : rule.kind;
}

/**
 * Text that is equal for rules whose numbers mean the same: component id and policy hash are not in it,
 * so that neither an inserted component nor an edit elsewhere moves a bucket. Two rules of one policy
 * may share it; whoever carries state pairs those in order of component id.
 */
export function limiterIdentity(rule: LimiterRule): string {
  const selectors = rule.selectors.map(canonical).sort();
  return canonical([rule.policyName, limiterKind(rule), meaning(rule), selectors]);
}

/** Fresh state: open until numbers arrive (a ramp sampler: closed). */
export function newLimiterState(rule: LimiterRule, world: LimitWorld): LimiterState {
  switch (rule.kind) {
    case "rate_limiter":
      return new RateState(world);
    case "concurrency_limiter":
      return new ConcurrencyState(world);
    case "sampler":
      return new SamplerState(rule.rampMode);
  }
}

/** A limiter for one plan, over state that may have served earlier plans under the same identity. */
export function bindLimiter(
  rule: LimiterRule,
  slots: Slots,
  state: LimiterState,
  world: LimitWorld,
): Limiter {
  const component = componentOf(rule);
  if (rule.kind === "rate_limiter" && state.kind === "rate_limiter") {
    return new RateLimiter(component, rule, slots, state, world);
  }
  if (rule.kind === "concurrency_limiter" && state.kind === "concurrency_limiter") {
    return new ConcurrencyLimiter(component, rule, slots, state, world);
  }
  if (rule.kind === "sampler" && state.kind === "sampler") {
    return new Sampler(component, rule, slots, state, world);
  }
  throw new Fault("INTERNAL", `state of a ${state.kind} was offered to a ${rule.kind}`);
}

function componentOf(rule: LimiterRule): Component {
  return Object.freeze({
    policyName: rule.policyName,
    policyHash: rule.policyHash,
    componentId: rule.componentId,
    kind: limiterKind(rule),
    deniedStatus: rule.deniedStatus,
    onFailure: rule.onFailure,
  });
}

/** What a number of this rule counts. Lengths of time only scale it: a bucket survives their change. */
function meaning(rule: LimiterRule): readonly (string | boolean)[] {
  switch (rule.kind) {
    case "rate_limiter":
      return [rule.limitByLabelKey, rule.tokensLabelKey, rule.continuousFill];
    case "concurrency_limiter":
      return [rule.limitByLabelKey, rule.tokensLabelKey];
    case "sampler":
      return [rule.sessionLabelKey];
  }
}

/** JSON with sorted member names: one text per value. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
