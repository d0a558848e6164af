// Sampler: lets a share of flows pass, always the same sessions where a session label identifies them. A load
// ramp is a sampler whose share grows; without numbers it lets nothing pass.

import type { Chance } from "#base/chance.ts";
import type { Component, Decision, Flow } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Limiter } from "../plan/stage-member.ts";
import type { LabelDetail, SamplerNumbers, SamplerRule } from "../rules.ts";
import { fnv1a } from "./session-hash.ts";

const NO_SESSIONS: ReadonlySet<string> = new Set();

/** The share, and the sessions that pass in any case. */
export class SamplerState {
  percentage: number;
  passing: ReadonlySet<string> = NO_SESSIONS;

  constructor(_context: unknown, { rampMode }: Pick<SamplerRule, "rampMode">) {
    this.percentage = rampMode ? 0 : 100;
  }

  close(): void {
    // Nothing is kept elsewhere.
  }
}

export class Sampler implements Limiter {
  readonly component: Component;
  readonly #state: SamplerState;
  readonly #chance: Chance;
  readonly #rampMode: boolean;
  readonly #sessionSlot: number;
  readonly #prefix: string;

  constructor(
    component: Component,
    rule: SamplerRule,
    slots: LabelSlots,
    state: SamplerState,
    chance: Chance,
  ) {
    this.component = component;
    this.#state = state;
    this.#chance = chance;
    this.#rampMode = rule.rampMode;
    this.#sessionSlot = rule.sessionLabelKey === "" ? -1 : slots.of(rule.sessionLabelKey);
    this.#prefix = `${rule.sessionLabelKey}:`;
  }

  peek(_flow: Flow, labels: Labels): Decision {
    return this.#decide(labels);
  }

  take(_flow: Flow, labels: Labels): Decision {
    return this.#decide(labels);
  }

  undo(): void {
    // Nothing is taken.
  }

  /** Without numbers, or with an invalid share: everything passes, or on a ramp nothing. */
  decide(numbers: SamplerNumbers | undefined): void {
    const share = numbers?.acceptPercentage ?? Number.NaN;
    const open = this.#rampMode ? 0 : 100;
    this.#state.percentage = Number.isFinite(share) ? Math.min(100, Math.max(0, share)) : open;
    this.#state.passing = new Set(numbers?.passThroughLabelValues);
  }

  #decide(labels: Labels): Decision<LabelDetail> {
    const session = this.#sessionSlot < 0 ? undefined : labels.get(this.#sessionSlot);
    const passes = this.#passes(session);
    const label = session === undefined ? this.#prefix : this.#prefix + session;
    return {
      component: this.component,
      outcome: passes ? "granted" : "refused",
      dropped: !passes,
      keyMissing: false,
      waitMs: -1,
      grantId: undefined,
      failure: undefined,
      detail: { label, value: session },
    };
  }

  #passes(session: string | undefined): boolean {
    const { percentage, passing } = this.#state;
    if (session === undefined) return this.#chance() < percentage / 100;
    if (passing.has(session)) return true;
    return percentage > 0 && fnv1a(session) / 4294967295 <= percentage / 100;
  }
}
