// Rate limiter: so many tokens per interval and label value, in token buckets.

import type { Component, Decision, Flow, Grant, Pending } from "../flow.ts";
import type { Labels, Slots } from "../label.ts";
import type { Limiter, LimitWorld } from "../limit.ts";
import type { LimiterNumbers, RateLimiterRule } from "../rules.ts";
import type { BucketParams } from "./bucket.ts";
import { LocalBuckets } from "./buckets.ts";
import { CountingLimiter } from "./counting-limiter.ts";
import type { CounterEngine } from "./engine.ts";
import { bounded } from "./numbers.ts";

interface RateNumbers {
  readonly capacity: number;
  readonly amount: number;
}

/** Buckets and the last numbers. Open until there are numbers, and while they say so. */
export class RateState {
  readonly kind = "rate_limiter";
  readonly buckets: LocalBuckets;
  open = true;
  numbers: RateNumbers | undefined;

  constructor(world: LimitWorld) {
    this.buckets = new LocalBuckets(world);
  }
}

export class RateLimiter implements Limiter {
  readonly component: Component;
  readonly #rule: RateLimiterRule;
  readonly #state: RateState;
  readonly #counting: CountingLimiter<BucketParams>;
  #numbers: RateNumbers | undefined;
  #params: BucketParams | undefined;

  constructor(
    component: Component,
    rule: RateLimiterRule,
    slots: Slots,
    state: RateState,
    world: LimitWorld,
    engine: CounterEngine<BucketParams> = state.buckets,
  ) {
    this.component = component;
    this.#rule = rule;
    this.#state = state;
    this.#counting = new CountingLimiter(
      component,
      rule,
      slots,
      world.observer,
      { engine, local: state.buckets },
      { slots: false },
    );
  }

  peek(_flow: Flow, labels: Labels): Decision {
    return this.#counting.peek(labels, this.#state.open ? undefined : this.#current());
  }

  take(_flow: Flow, labels: Labels): Decision | Pending<Decision> {
    return this.#counting.take(labels, this.#state.open ? undefined : this.#current());
  }

  /** Also while the limiter is open: what was taken before is back when it closes. */
  undo(grant: Grant): void {
    const params = this.#current();
    if (params !== undefined) this.#counting.giveBack(grant, params);
  }

  /** Signals that are no numbers open the limiter, as a missing decision does. */
  decide(numbers: LimiterNumbers | undefined): void {
    const given = numbers?.kind === "rate_limiter" && !numbers.passThrough ? numbers : undefined;
    const capacity = bounded(given?.bucketCapacity);
    const amount = bounded(given?.fillAmount);
    this.#state.open = capacity === undefined || amount === undefined;
    if (capacity === undefined || amount === undefined) return;
    this.#state.numbers = { capacity, amount };
    const params = this.#current();
    if (params !== undefined) this.#state.buckets.adopt(params);
  }

  /** Numbers of the state in the form of this rule, made anew only when they changed. */
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
          });
    return this.#params;
  }
}
