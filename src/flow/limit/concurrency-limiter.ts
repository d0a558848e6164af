// Concurrency limiter: so many tokens in flight per label value. A slot is held from the check until the
// flow ends, or until it expires.

import type { Component, Decision, Flow, Grant, Pending } from "../flow.ts";
import type { Labels, Slots } from "../label.ts";
import type { Limiter, LimitWorld } from "../limit.ts";
import type { ConcurrencyLimiterRule, LimiterNumbers } from "../rules.ts";
import { CountingLimiter } from "./counting-limiter.ts";
import type { CounterEngine } from "./engine.ts";
import { bounded } from "./numbers.ts";
import { LocalSlots, type SlotParams } from "./slots.ts";

/** Slots in flight and the last limit; undefined while there is none, or it opens the limiter. */
export class ConcurrencyState {
  readonly kind = "concurrency_limiter";
  readonly slots: LocalSlots;
  max: number | undefined;

  constructor(world: LimitWorld) {
    this.slots = new LocalSlots(world);
  }
}

export class ConcurrencyLimiter implements Limiter {
  readonly component: Component;
  readonly #rule: ConcurrencyLimiterRule;
  readonly #state: ConcurrencyState;
  readonly #counting: CountingLimiter<SlotParams>;
  #params: SlotParams;

  constructor(
    component: Component,
    rule: ConcurrencyLimiterRule,
    slots: Slots,
    state: ConcurrencyState,
    world: LimitWorld,
    engine: CounterEngine<SlotParams> = state.slots,
  ) {
    this.component = component;
    this.#rule = rule;
    this.#state = state;
    this.#params = Object.freeze({ max: 0, maxInflightMs: rule.maxInflightMs });
    this.#counting = new CountingLimiter(
      component,
      rule,
      slots,
      world.observer,
      { engine, local: state.slots },
      { slots: true },
    );
  }

  peek(_flow: Flow, labels: Labels): Decision {
    return this.#counting.peek(labels, this.#current());
  }

  take(_flow: Flow, labels: Labels): Decision | Pending<Decision> {
    return this.#counting.take(labels, this.#current());
  }

  undo(grant: Grant): void {
    this.end(grant);
  }

  /** While the limiter is open the slot is freed as well, but nothing is said to have ended. */
  end(grant: Grant): boolean {
    const ended = this.#counting.giveBack(grant, this.#current() ?? this.#params);
    return ended && this.#state.max !== undefined;
  }

  /** A signal that is no number opens the limiter, as a missing decision does. */
  decide(numbers: LimiterNumbers | undefined): void {
    const given =
      numbers?.kind === "concurrency_limiter" && !numbers.passThrough ? numbers : undefined;
    this.#state.max = bounded(given?.maxConcurrency);
  }

  /** The state's limit in the form of this rule, made anew only when it changed. */
  #current(): SlotParams | undefined {
    const { max } = this.#state;
    if (max === undefined) return undefined;
    if (max !== this.#params.max) {
      this.#params = Object.freeze({ max, maxInflightMs: this.#rule.maxInflightMs });
    }
    return this.#params;
  }
}
