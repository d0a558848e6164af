// Rate limiter: a number of tokens per interval and label value, in token buckets.

import type { Component, Decision, Flow, Grant, Pending } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Limiter } from "../plan/stage-member.ts";
import type { RateLimiterNumbers, RateLimiterRule, TokenDetail } from "../rules.ts";
import { boundedSignal } from "./bounded-signal.ts";
import type { CounterEngine } from "./counters/counter-engine.ts";
import { LocalBuckets, type LocalBucketsContext } from "./counters/local-buckets.ts";
import type { BucketParams } from "./counters/token-bucket.ts";
import { type CountingKind, CountingLimiter } from "./counting-limiter.ts";

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

/** Buckets and the last numbers. Open until there are numbers, and while they say so. */
export class RateState {
  readonly buckets: LocalBuckets;
  open = true;
  numbers: RateNumbers | undefined;

  /** Limiters of one group are always asked together and keyed by the same label. */
  constructor(context: LocalBucketsContext, _rule: unknown, group: string) {
    this.buckets = new LocalBuckets(context, group);
  }

  close(): void {
    this.buckets.close();
  }
}

export class RateLimiter implements Limiter {
  readonly component: Component;
  readonly #rule: RateLimiterRule;
  readonly #state: RateState;
  readonly #counting: CountingLimiter<BucketParams, TokenDetail>;
  #numbers: RateNumbers | undefined;
  #params: BucketParams | undefined;

  constructor(
    component: Component,
    rule: RateLimiterRule,
    slots: LabelSlots,
    state: RateState,
    { observer }: LocalBucketsContext,
    engine: CounterEngine<BucketParams> = state.buckets,
  ) {
    this.component = component;
    this.#rule = rule;
    this.#state = state;
    const engines = { engine, local: state.buckets };
    this.#counting = new CountingLimiter(component, rule, slots, observer, engines, COUNTING);
  }

  peek(_flow: Flow, labels: Labels, now: number): Decision {
    return this.#counting.peek(labels, now, this.#state.open ? undefined : this.#current());
  }

  take(_flow: Flow, labels: Labels, now: number): Decision | Pending<Decision> {
    return this.#counting.take(labels, now, this.#state.open ? undefined : this.#current());
  }

  /** Works while the limiter is open, too: what was taken before is back when it closes. */
  undo(grant: Grant): void {
    const params = this.#current();
    if (params !== undefined) this.#counting.giveBack(grant, params);
  }

  /** Invalid signals open the limiter, as missing numbers do. */
  decide(numbers: RateLimiterNumbers | undefined): void {
    const given = numbers === undefined || numbers.passThrough ? undefined : numbers;
    const capacity = boundedSignal(given?.bucketCapacity);
    const amount = boundedSignal(given?.fillAmount);
    this.#state.open = capacity === undefined || amount === undefined;
    if (capacity === undefined || amount === undefined) return;
    this.#state.numbers = { capacity, amount };
    const params = this.#current();
    if (params !== undefined) this.#state.buckets.adopt(params);
  }

  /** The state's numbers with the parameters of this rule. The same object until the numbers change. */
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
