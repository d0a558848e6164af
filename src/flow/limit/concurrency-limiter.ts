// Concurrency limiter: a number of tokens in flight per label value. A slot is held from the check until the
// flow ends or the slot expires.

import { Fault } from "#base/fault.ts";
import type { CounterEngine, SlotParams } from "../counters/counter-engine.ts";
import { LocalSlots, type LocalSlotsContext } from "../counters/local/local-slots.ts";
import type { SharedCounters, SharedEngine } from "../counters/shared-counters.ts";
import type { Component, Decision, Grant, Pending } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { ConcurrencyLimiterRule, SlotDetail, SlotNumbers } from "../rules.ts";
import { boundedSignal } from "./bounded-signal.ts";
import { type Asked, type CountingKind, CountingLimiter } from "./counting-limiter.ts";
import type { Limiter } from "./stage-member.ts";
import { type Gap, gapOf, type Substitute, standInFor } from "./stand-in.ts";

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
  /** The same limiter's slots where agents share them; undefined where they are counted in process. */
  readonly shared: SharedEngine<SlotParams> | undefined;
  /** The reason for which the limit does not count now; undefined while it does. */
  gap: Gap | undefined = "no_numbers";
  max: number | undefined;

  /** Each limiter has slots of its own, whatever group of limiters it is asked with. */
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
    return this.gap === "pass_through";
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
  /** The limit that the parameters are made of. */
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

  /** A scheduler states in `asked` how many tokens it wants. */
  peek(_flow: unknown, labels: Labels, now: number, asked?: Asked): Decision<SlotDetail> {
    const standIn = this.#standIn();
    return this.#counting.peek(labels, now, this.#counted(standIn), standIn, asked);
  }

  take(_flow: unknown, labels: Labels, now: number, asked?: Asked): Decision | Pending<Decision> {
    if (this.#state.gap === undefined) {
      return this.#counting.take(labels, now, this.#current(), undefined, asked);
    }
    const standIn = this.#standIn();
    return this.#counting.take(labels, now, this.#counted(standIn), standIn, asked);
  }

  undo(grant: Grant): void {
    this.#giveBack(grant, true);
  }

  /** The largest number of tokens in flight; 0 while there is none. */
  get most(): number {
    return this.#state.max ?? 0;
  }

  /**
   * When the oldest slot of a key expires, on `Clock.now()`; Infinity for a key without slots. Undefined where agents
   * share their slots: this one does not know those of the others.
   */
  nextExpiry(value: string | undefined): number | undefined {
    const { shared, slots } = this.#state;
    return shared === undefined ? slots.nextExpiry(value, this.#rule.maxInflightMs) : undefined;
  }

  /** While nothing is counted the slot is freed as well, but it is not reported as ended. */
  end(grant: Grant): boolean | Pending<boolean> {
    return this.#giveBack(grant, false);
  }

  #giveBack(grant: Grant, unused: boolean): boolean | Pending<boolean> {
    const ended = this.#counting.giveBack(grant, this.#current() ?? this.#params, unused);
    return this.#counted(this.#standIn()) === undefined ? false : ended;
  }

  /** A limit that is not finite is no limit. */
  decide(numbers: SlotNumbers | undefined): void {
    const state = this.#state;
    const max = boundedSignal(numbers?.maxConcurrency);
    state.gap = gapOf(max === undefined ? undefined : numbers);
    if (max === undefined || (state.gap !== undefined && state.gap !== "last_known")) return;
    state.max = max;
    const params = this.#current();
    if (params !== undefined) state.shared?.adopt(params);
  }

  #standIn(): Substitute | undefined {
    const { gap, max } = this.#state;
    if (gap === undefined || gap === "pass_through") return gap;
    return standInFor(gap, this.component, max !== undefined);
  }

  /** The parameters to count by; undefined while nothing is counted. */
  #counted(standIn: Substitute | undefined): SlotParams | undefined {
    return standIn === undefined || standIn === "last_known" ? this.#current() : undefined;
  }

  /** The parameters by the state's limit and this rule. The same object until the limit changes. */
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

/** `max` is what the controller decided; an adaptive limit is never larger. */
function paramsOf(
  { adaptive, maxInflightMs }: Pick<ConcurrencyLimiterRule, "adaptive" | "maxInflightMs">,
  max: number,
): SlotParams {
  if (adaptive === undefined) return Object.freeze({ max, maxInflightMs });
  const most = Math.min(max, adaptive.max);
  const min = Math.min(most, adaptive.min);
  const start = Math.min(most, adaptive.start);
  const bounds = Object.freeze({ ...adaptive, min, start, max: most });
  return Object.freeze({ max: most, maxInflightMs, adaptive: bounds });
}
