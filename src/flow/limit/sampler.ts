// Sampler: lets a share of flows pass, and always the same sessions where a label identifies them. A load ramp is a sampler
// whose share grows; without numbers it lets nothing pass.

import type { Chance } from "#base/chance.ts";
import { cutText } from "#base/text/cut.ts";
import { type Component, type Decision, type Flow, Missing } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { LabelDetail, SamplerNumbers, SamplerRule } from "../rules.ts";
import { fallbackFor, type InvalidFailure } from "./fallback.ts";
import type { Limiter, LimiterContext } from "./limiter.ts";
import { fnv1a, mixedHash } from "./session-hash.ts";

const NO_SESSIONS: ReadonlySet<string> = new Set();

/** The last valid share, and the sessions that always pass. */
export class SamplerState {
  /** Why the share does not count; undefined while it does. */
  invalid: InvalidFailure | undefined = "no_numbers";
  percentage: number | undefined;
  passing: ReadonlySet<string> = NO_SESSIONS;

  passes(session: string | undefined): boolean {
    return session !== undefined && this.passing.has(session);
  }

  close(): void {
    // There is nothing to close.
  }
}

export class Sampler implements Limiter {
  readonly component: Component;
  readonly #state: SamplerState;
  readonly #chance: Chance;
  readonly #observer: Observer;
  readonly #rule: SamplerRule;
  readonly #hash: (session: string) => number;
  readonly #sessionSlot: number;
  readonly #prefix: string;

  constructor(
    component: Component,
    rule: SamplerRule,
    slots: LabelSlots,
    state: SamplerState,
    { chance, observer }: Pick<LimiterContext, "chance" | "observer">,
  ) {
    this.component = component;
    this.#state = state;
    this.#chance = chance;
    this.#observer = observer;
    this.#rule = rule;
    this.#hash = rule.hash === "fnv1a" ? fnv1a : mixedHash;
    this.#sessionSlot = rule.sessionLabelKey === "" ? -1 : slots.of(rule.sessionLabelKey);
    this.#prefix = `${rule.sessionLabelKey}:`;
  }

  take(_flow: Flow, labels: Labels): Decision {
    if (this.#sessionSlot >= 0 && labels.get(this.#sessionSlot) === undefined)
      this.#observer.missingLabel(this.component, "key");
    return this.draw(labels);
  }

  undo(): void {
    // Nothing is taken.
  }

  /** A share that is not finite counts as none. */
  decide(numbers: SamplerNumbers | undefined): void {
    const state = this.#state;
    const share = numbers?.acceptPercentage ?? Number.NaN;
    const known = Number.isFinite(share);
    state.invalid = known ? numbers?.failure : "no_numbers";
    if (known && (state.invalid === undefined || state.invalid === "last_known"))
      state.percentage = Math.min(100, Math.max(0, share));
    state.passing = new Set(numbers?.passThroughLabelValues);
  }

  /** The decision about a flow, without a report of its missing label. */
  draw(labels: Labels): Decision<LabelDetail> {
    const { invalid, percentage } = this.#state;
    const session = this.#sessionSlot < 0 ? undefined : labels.get(this.#sessionSlot);
    let missing: number = Missing.nothing;
    const failure = fallbackFor(invalid, this.component, percentage !== undefined);
    let share = percentage ?? 0;
    if (failure === "open") share = 100;
    else if (failure === "closed") share = 0;
    let passes = this.#passes(session, share);
    if (session === undefined && this.#sessionSlot >= 0) {
      const { onMissingLabel } = this.#rule;
      missing = onMissingLabel === "default_key" ? Missing.defaultKey : Missing.key;
      if (onMissingLabel !== "default_key") passes = onMissingLabel === "pass";
    }
    const shown = session === undefined ? undefined : cutText(session);
    const label = shown === undefined ? this.#prefix : this.#prefix + shown;
    return {
      component: this.component,
      outcome: passes ? "granted" : "refused",
      dropped: !passes,
      missing,
      waitMs: -1,
      grantId: undefined,
      failure,
      detail: { label, value: shown },
    };
  }

  #passes(session: string | undefined, percentage: number): boolean {
    if (session === undefined) return this.#chance() < percentage / 100;
    if (this.#state.passes(session)) return true;
    return percentage > 0 && this.#hash(session) / 4294967295 <= percentage / 100;
  }
}
