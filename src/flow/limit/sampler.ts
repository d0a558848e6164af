// Sampler: lets a share of flows pass, the same sessions every time where a session label says which.
// A load ramp is a sampler whose share grows; without a decision it lets nothing pass.

import type { Chance } from "#base/chance.ts";
import type { Component, Decision, Flow } from "../flow.ts";
import type { Labels, Slots } from "../label.ts";
import type { Limiter } from "../limit.ts";
import type { LimiterNumbers, SamplerRule } from "../rules.ts";
import { fnv1a } from "./fnv.ts";

const NOBODY: ReadonlySet<string> = new Set();

/** The share and who passes in any case. */
export class SamplerState {
  readonly kind = "sampler";
  percentage: number;
  passing: ReadonlySet<string> = NOBODY;

  constructor(ramp: boolean) {
    this.percentage = ramp ? 0 : 100;
  }
}

export class Sampler implements Limiter {
  readonly component: Component;
  readonly #state: SamplerState;
  readonly #chance: Chance;
  readonly #ramp: boolean;
  readonly #session: number;
  readonly #prefix: string;

  constructor(
    component: Component,
    rule: SamplerRule,
    slots: Slots,
    state: SamplerState,
    world: { readonly chance: Chance },
  ) {
    this.component = component;
    this.#state = state;
    this.#chance = world.chance;
    this.#ramp = rule.rampMode;
    this.#session = rule.sessionLabelKey === "" ? -1 : slots.of(rule.sessionLabelKey);
    this.#prefix = `${rule.sessionLabelKey}:`;
  }

  peek(_flow: Flow, labels: Labels): Decision {
    return this.#judge(labels);
  }

  take(_flow: Flow, labels: Labels): Decision {
    return this.#judge(labels);
  }

  undo(): void {
    // Nothing is taken.
  }

  /** Without numbers, or with none worth the name: everybody, or nobody on a ramp. */
  decide(numbers: LimiterNumbers | undefined): void {
    const given = numbers?.kind === "sampler" ? numbers : undefined;
    const share = given?.acceptPercentage ?? Number.NaN;
    const open = this.#ramp ? 0 : 100;
    this.#state.percentage = Number.isFinite(share) ? Math.min(100, Math.max(0, share)) : open;
    this.#state.passing = new Set(given?.passThroughLabelValues);
  }

  #judge(labels: Labels): Decision {
    const session = this.#session < 0 ? undefined : labels.get(this.#session);
    const passes = this.#passes(session);
    return {
      component: this.component,
      outcome: passes ? "granted" : "refused",
      dropped: !passes,
      keyMissing: false,
      label: session === undefined ? this.#prefix : this.#prefix + session,
      remaining: 0,
      current: 0,
      consumed: 0,
      waitMs: -1,
      requestId: "",
      grant: undefined,
      failure: undefined,
    };
  }

  #passes(session: string | undefined): boolean {
    const { percentage, passing } = this.#state;
    if (session === undefined) return this.#chance() < percentage / 100;
    if (passing.has(session)) return true;
    return percentage > 0 && fnv1a(session) / 4294967295 <= percentage / 100;
  }
}
