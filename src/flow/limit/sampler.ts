// Sampler: lets a share of flows pass, always the same sessions where a session label identifies them. A load
// ramp is a sampler whose share grows; without numbers it lets nothing pass.

import type { Chance } from "#base/chance.ts";
import type { StandIn } from "#base/failure-mode.ts";
import { cutText } from "#base/text/cut.ts";
import { type Component, type Decision, type Flow, Missing } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { LabelDetail, SamplerNumbers, SamplerRule } from "../rules.ts";
import { fnv1a, mixedHash } from "./session-hash.ts";
import type { Limiter, LimiterContext } from "./stage-member.ts";
import { type FailureGap, standInFor } from "./stand-in.ts";

const NO_SESSIONS: ReadonlySet<string> = new Set();

/** The last valid share, and the sessions that pass in any case. */
export class SamplerState {
  /** The reason for which the share does not count now; undefined while it does. */
  gap: FailureGap | undefined = "no_numbers";
  percentage: number | undefined;
  passing: ReadonlySet<string> = NO_SESSIONS;

  passes(session: string | undefined): boolean {
    return session !== undefined && this.passing.has(session);
  }

  close(): void {
    // Nothing is kept elsewhere.
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

  peek(_flow: Flow, labels: Labels): Decision {
    return this.#decide(labels, true);
  }

  take(_flow: Flow, labels: Labels): Decision {
    return this.#decide(labels, false);
  }

  undo(): void {
    // Nothing is taken.
  }

  /** A share that is not finite is no share. */
  decide(numbers: SamplerNumbers | undefined): void {
    const state = this.#state;
    const share = numbers?.acceptPercentage ?? Number.NaN;
    const known = Number.isFinite(share);
    state.gap = known ? numbers?.failure : "no_numbers";
    if (known && (state.gap === undefined || state.gap === "last_known"))
      state.percentage = Math.min(100, Math.max(0, share));
    state.passing = new Set(numbers?.passThroughLabelValues);
  }

  #decide(labels: Labels, peek: boolean): Decision<LabelDetail> {
    const { gap, percentage } = this.#state;
    const session = this.#sessionSlot < 0 ? undefined : labels.get(this.#sessionSlot);
    let missing: number = Missing.nothing;
    let failure: StandIn | undefined;
    let share = percentage ?? 0;
    if (gap !== undefined) {
      failure = standInFor(gap, this.component, percentage !== undefined);
      if (failure !== "last_known") share = failure === "open" ? 100 : 0;
    }
    let passes = this.#passes(session, share);
    if (session === undefined && this.#sessionSlot >= 0) {
      const { onMissingLabel } = this.#rule;
      if (!peek) this.#observer.missingLabel(this.component, "key");
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
