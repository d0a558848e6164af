// Concurrency limiter: a number of tokens in flight per label value. A flow holds a slot from its check until it ends or
// the slot expires.

import { Fault } from "#base/fault.ts";
import type { CounterEngine, SlotParams } from "../counters/counter-engine.ts";
import { LocalSlots, type LocalSlotsContext } from "../counters/local/local-slots.ts";
import type { SharedCounters, SharedEngine } from "../counters/shared-counters.ts";
import type { Component, Decision, Grant, Pending } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { ConcurrencyLimiterRule, SlotDetail, SlotNumbers } from "../rules.ts";
import { boundedSignal } from "./bounded-signal.ts";
import { type CountingKind, CountingLimiter, type TokenRequest } from "./counting-limiter.ts";
import { type InvalidNumbers, whyInvalid } from "./fallback.ts";
import type { Limiter } from "./limiter.ts";

const COUNTING: CountingKind<SlotDetail> = {
  detail: (label, value, { remaining, current }, consumed, requestId) => ({
    label,
    value,
    remaining,
    current,
    consumed,
    requestId,
  }),
  grantsNothing: true,
};

interface ConcurrencyContext extends LocalSlotsContext {
  readonly sharedCounters?: SharedCounters | undefined;
}

/** Slots in flight and the last valid limit. */
export class ConcurrencyState {
  readonly slots: LocalSlots;
  /** The slots of this limiter that agents share; undefined where each agent counts in process. */
  readonly shared: SharedEngine<SlotParams> | undefined;
  /** Why the limit does not count; undefined while it does. */
  invalid: InvalidNumbers | undefined = "no_numbers";
  max: number | undefined;

  /** Unlike buckets, slots are not shared by the limiters of a group. */
  constructor(
    context: ConcurrencyContext,
    rule: Pick<ConcurrencyLimiterRule, "policyName">,
    _group: string,
    name: string,
  ) {
    this.slots = new LocalSlots(context);
    this.shared = context.sharedCounters?.slots({ policyName: rule.policyName, name });
  }

  passes(): boolean {
    return this.invalid === "pass_through";
  }

  close(): void {
    this.shared?.close();
  }
}

export class ConcurrencyLimiter implements Limiter {
  readonly component: Component;
  readonly #rule: Omit<ConcurrencyLimiterRule, "kind">;
  readonly #state: ConcurrencyState;
  readonly #counting: CountingLimiter<SlotParams, SlotDetail>;
  /** Reports the limits that the keys have found; undefined where the controller decides the limit. */
  readonly showGauges: (() => void) | undefined;
  /** The limit in the parameters. */
  #decided = 0;
  #params: SlotParams;

  constructor(
    component: Component,
    rule: Omit<ConcurrencyLimiterRule, "kind">,
    slots: LabelSlots,
    state: ConcurrencyState,
    { clock, observer, sharedCounters }: ConcurrencyContext,
    engine: CounterEngine<SlotParams> = state.shared ?? state.slots,
  ) {
    const fixed = sharedCounters?.fixedLimits;
    if (rule.adaptive !== undefined && fixed !== undefined) {
      const wanted = `wanted counters.engine local or peers, got ${fixed}`;
      throw new Fault("FAILED_PRECONDITION", `adaptive max_concurrency: ${wanted}`);
    }
    this.component = component;
    this.#rule = rule;
    this.#state = state;
    this.#params = paramsOf(rule, 0);
    const engines = { engine, local: state.slots };
    this.#counting = new CountingLimiter(component, rule, slots, observer, engines, COUNTING);
    if (rule.adaptive === undefined) return;
    const summary = () => (state.shared ?? state.slots).adaptive?.(clock.now());
    this.showGauges = () => observer.adapted(component, { summary });
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

  undo(grant: Grant): void {
    this.#giveBack(grant, true);
  }

  /** The largest number of tokens in flight; 0 while there is none. */
  get maxTokens(): number {
    return this.#state.max ?? 0;
  }

  /**
   * When the oldest slot of a key expires, on `Clock.now()`; Infinity for a key without slots. Undefined where agents share
   * their slots, because this agent does not know the slots of others.
   */
  nextExpiry(value: string | undefined): number | undefined {
    const { shared, slots } = this.#state;
    return shared === undefined ? slots.nextExpiry(value, this.#rule.maxInflightMs) : undefined;
  }

  /** While nothing is counted, the slot is freed but not reported as ended. */
  end(grant: Grant): boolean | Pending<boolean> {
    return this.#giveBack(grant, false);
  }

  #giveBack(grant: Grant, unused: boolean): boolean | Pending<boolean> {
    const params = this.#current();
    const ended = this.#counting.giveBack(grant, params ?? this.#params, unused);
    return this.#counting.counts(params, this.#state.invalid) ? ended : false;
  }

  /** A limit that is not finite counts as none. */
  decide(numbers: SlotNumbers | undefined): void {
    const state = this.#state;
    const max = boundedSignal(numbers?.maxConcurrency);
    state.invalid = whyInvalid(max === undefined ? undefined : numbers);
    if (max === undefined || (state.invalid !== undefined && state.invalid !== "last_known"))
      return;
    state.max = max;
    const params = this.#current();
    if (params !== undefined) state.shared?.adopt(params);
  }

  /** The last valid limit with the parameters of this rule. The same object until the limit changes. */
  #current(): SlotParams | undefined {
    const { max } = this.#state;
    if (max === undefined) return undefined;
    if (max !== this.#decided) {
      this.#decided = max;
      this.#params = paramsOf(this.#rule, max);
    }
    return this.#params;
  }
}

/** `max` is the limit of the controller, which an adaptive limit never exceeds. */
function paramsOf(
  { adaptive, maxInflightMs }: Pick<ConcurrencyLimiterRule, "adaptive" | "maxInflightMs">,
  max: number,
): SlotParams {
  if (adaptive === undefined) return Object.freeze({ max, maxInflightMs });
  const upper = Math.min(max, adaptive.max);
  const min = Math.min(upper, adaptive.min);
  const start = Math.min(upper, adaptive.start);
  const bounds = Object.freeze({ ...adaptive, min, start, max: upper });
  return Object.freeze({ max: upper, maxInflightMs, adaptive: bounds });
}
