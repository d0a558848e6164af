// Rate limiter: a number of tokens per interval and label value, in token buckets.

import type { BucketEngine, BucketParams } from "../counters/counter-engine.ts";
import { LocalBuckets, type LocalBucketsContext } from "../counters/local/local-buckets.ts";
import type { SharedBucketEngine, SharedCounters } from "../counters/shared-counters.ts";
import type { Component, Decision, Grant, Pending } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { BucketNumbers, RateLimiterRule, SettlementRule, TokenDetail } from "../rules.ts";
import { boundedSignal } from "./bounded-signal.ts";
import { type CountingKind, CountingLimiter, type TokenRequest } from "./counting-limiter.ts";
import { type InvalidNumbers, whyInvalid } from "./fallback.ts";
import type { Limiter } from "./limiter.ts";

interface RateNumbers {
  readonly capacity: number;
  readonly amount: number;
}

const COUNTING: CountingKind<TokenDetail> = {
  detail: (label, value, { remaining, current }, consumed) => ({
    label,
    value,
    remaining,
    current,
    consumed,
  }),
  grantsNothing: false,
};

interface RateContext extends LocalBucketsContext {
  readonly sharedCounters?: SharedCounters | undefined;
}

/** Buckets and the last valid numbers. */
export class RateState {
  readonly buckets: LocalBuckets;
  /** The buckets of this limiter that agents share; undefined where each agent counts in process. */
  readonly shared: SharedBucketEngine | undefined;
  /** Why the numbers do not count; undefined while they do. */
  invalid: InvalidNumbers | undefined = "no_numbers";
  numbers: RateNumbers | undefined;

  /** Limiters of one group are always asked together and keyed by the same label. */
  constructor(
    context: RateContext,
    rule: Pick<RateLimiterRule, "policyName">,
    group: string,
    name: string,
  ) {
    this.buckets = new LocalBuckets(context, group);
    this.shared = context.sharedCounters?.buckets({ policyName: rule.policyName, name });
  }

  passes(): boolean {
    return this.invalid === "pass_through";
  }

  close(): void {
    this.buckets.close();
    this.shared?.close();
  }
}

export class RateLimiter implements Limiter {
  readonly component: Component;
  readonly #rule: Omit<RateLimiterRule, "kind">;
  readonly #state: RateState;
  readonly #engine: BucketEngine;
  readonly #counting: CountingLimiter<BucketParams, TokenDetail>;
  #numbers: RateNumbers | undefined;
  #params: BucketParams | undefined;

  constructor(
    component: Component,
    rule: Omit<RateLimiterRule, "kind">,
    slots: LabelSlots,
    state: RateState,
    { observer }: LocalBucketsContext,
    engine: BucketEngine = state.shared ?? state.buckets,
  ) {
    this.component = component;
    this.#engine = engine;
    this.#rule = rule;
    this.#state = state;
    const engines = { engine, local: state.buckets };
    // A flow that is estimated to cost nothing may cost something in the end.
    const kind = { ...COUNTING, grantsNothing: rule.settlement !== undefined };
    this.#counting = new CountingLimiter(component, rule, slots, observer, engines, kind);
  }

  /** A scheduler states in `request` how many tokens it wants. */
  take(
    _flow: unknown,
    labels: Labels,
    now: number,
    request?: TokenRequest,
  ): Decision | Pending<Decision> {
    return this.#counting.take(labels, now, this.#current(), this.#state.invalid, request);
  }

  /** The largest number of tokens that a flow can get; 0 while there are no numbers. */
  get maxTokens(): number {
    const { numbers } = this.#state;
    return numbers === undefined || numbers.amount <= 0 ? 0 : numbers.capacity;
  }

  /** The parameters of buckets from which other agents take as well; undefined where none does. */
  get shared(): BucketParams | undefined {
    const { shared } = this.#state;
    return shared === undefined || shared.exclusive === true ? undefined : this.#current();
  }

  /** Also gives back while nothing is counted, for the time when counting goes on. */
  undo(grant: Grant): void {
    const params = this.#current();
    if (params !== undefined) this.#counting.giveBack(grant, params);
  }

  get settlement(): SettlementRule | undefined {
    return this.#rule.settlement;
  }

  /** Also settles while nothing is counted. */
  settle(grant: Grant, cost: number): void {
    const params = this.#current();
    if (params === undefined) return;
    const more = cost - grant.amount;
    if (more < 0) this.#counting.giveBack({ ...grant, amount: -more }, params);
    if (more <= 0) return;
    const { value, id, local } = this.#counting.originOf(grant);
    const engine = local ? this.#state.buckets : this.#engine;
    engine.charge(value, more, id, params);
  }

  /** Numbers that are not finite count as none. */
  decide(numbers: BucketNumbers | undefined): void {
    const state = this.#state;
    const capacity = boundedSignal(numbers?.bucketCapacity);
    const amount = boundedSignal(numbers?.fillAmount);
    const known = capacity !== undefined && amount !== undefined;
    state.invalid = whyInvalid(known ? numbers : undefined);
    if (!known || (state.invalid !== undefined && state.invalid !== "last_known")) return;
    state.numbers = { capacity, amount };
    const params = this.#current();
    if (params === undefined) return;
    state.buckets.adopt(params);
    state.shared?.adopt(params);
  }

  /** The last valid numbers with the parameters of this rule. The same object until the numbers change. */
  #current(): BucketParams | undefined {
    const { numbers } = this.#state;
    if (numbers === this.#numbers) return this.#params;
    this.#numbers = numbers;
    this.#params =
      numbers === undefined
        ? undefined
        : Object.freeze({
            capacity: numbers.capacity,
            amount: numbers.amount,
            intervalMs: this.#rule.intervalMs > 0 ? this.#rule.intervalMs : 1,
            continuous: this.#rule.continuousFill,
            delayed: this.#rule.delayInitialFill,
            maxIdleMs: this.#rule.maxIdleMs,
            lazySyncs: this.#rule.lazySyncs,
          });
    return this.#params;
  }
}
