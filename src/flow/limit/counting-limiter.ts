// What rate and concurrency limiters share: from labels to one question to an engine, from its answer
// to a Decision and a Grant. Everything that is special to one of them is in its profile.

import { type Component, type Decision, type FailureMode, type Grant, Pending } from "../flow.ts";
import type { Labels, Slots } from "../label.ts";
import type { Observer } from "../observe.ts";
import { Ask, type AskRule } from "./ask.ts";
import type { CounterEngine, LocalEngine, Taken } from "./engine.ts";

/** What a limiter tells about its engine's ids. */
export interface Profile {
  /** Reports the engine's id as the request id, and holds a slot also for zero tokens. */
  readonly slots: boolean;
}

/** Precedes ids of the local engine where it stood in for another. */
const STAND_IN = "local/";

export class CountingLimiter<Params> {
  readonly component: Component;
  readonly #ask: Ask;
  readonly #engine: CounterEngine<Params>;
  readonly #local: LocalEngine<Params>;
  readonly #observer: Observer;
  readonly #profile: Profile;

  constructor(
    component: Component,
    rule: AskRule,
    slots: Slots,
    observer: Observer,
    engines: { readonly engine: CounterEngine<Params>; readonly local: LocalEngine<Params> },
    profile: Profile,
  ) {
    this.component = component;
    this.#ask = new Ask(rule, slots, observer);
    this.#engine = engines.engine;
    this.#local = engines.local;
    this.#observer = observer;
    this.#profile = profile;
  }

  /** `params` undefined: open, nothing is counted. */
  peek(labels: Labels, params: Params | undefined): Decision {
    const value = this.#ask.value(labels);
    if (value === undefined && this.#ask.keyed) return this.#pass(undefined, "", true);
    const label = this.#ask.label(value);
    if (params === undefined) return this.#pass(value, label, false);
    const want = this.#ask.tokens(labels, false);
    return this.#decision(this.#engine.peek(value, want, params), value, label, want, false);
  }

  take(labels: Labels, params: Params | undefined): Decision | Pending<Decision> {
    const value = this.#ask.value(labels);
    if (value === undefined && this.#ask.keyed) {
      this.#observer.odd("missing_limit_label");
      return this.#pass(undefined, "", true);
    }
    const label = this.#ask.label(value);
    if (params === undefined) return this.#pass(value, label, false);
    const want = this.#ask.tokens(labels, true);
    const taken = this.#engine.take(value, want, params);
    if (!(taken instanceof Pending)) return this.#settle(taken, value, label, want, params);
    const decision = new Pending<Decision>(() => taken.cancel());
    taken.whenSettled(
      (late) => decision.settle(this.#settle(late, value, label, want, params)),
      (thrown) => decision.fail(thrown),
    );
    return decision;
  }

  /** False when the engine knows nothing (any more) of what was taken. */
  giveBack(grant: Grant, params: Params): boolean {
    if (!this.#ask.owns(grant.key)) return false;
    const value = this.#ask.valueOf(grant.key);
    if (!grant.id.startsWith(STAND_IN)) {
      return this.#engine.giveBack(value, grant.amount, grant.id, params);
    }
    return this.#local.giveBack(value, grant.amount, grant.id.slice(STAND_IN.length), params);
  }

  #settle(
    taken: Taken,
    value: string | undefined,
    label: string,
    want: number,
    params: Params,
  ): Decision {
    if (taken.outcome !== "undecided") return this.#decision(taken, value, label, want, true);
    this.#observer.odd("undecided");
    const mode = this.component.onFailure;
    if (mode === "open" || mode === "closed") return this.#undecided(value, label, mode);
    return this.#standIn(this.#local.take(value, want, params), value, label, want, mode);
  }

  /** Nothing was asked: the flow lacks the key, or the limiter is open. */
  #pass(value: string | undefined, label: string, keyMissing: boolean): Decision {
    return {
      component: this.component,
      outcome: "granted",
      dropped: false,
      keyMissing,
      label,
      value,
      remaining: 0,
      current: 0,
      consumed: 0,
      waitMs: 0,
      requestId: "",
      grant: undefined,
      failure: undefined,
    };
  }

  #decision(
    taken: Taken,
    value: string | undefined,
    label: string,
    want: number,
    real: boolean,
  ): Decision {
    const granted = taken.outcome === "granted";
    return {
      component: this.component,
      outcome: taken.outcome,
      dropped: taken.outcome === "refused",
      keyMissing: false,
      label,
      value,
      remaining: taken.remaining,
      current: taken.current,
      consumed: granted ? want : 0,
      waitMs: taken.waitMs,
      requestId: this.#profile.slots ? taken.id : "",
      grant: granted && real ? this.#grant(label, taken.id, want) : undefined,
      failure: undefined,
    };
  }

  #undecided(value: string | undefined, label: string, mode: "open" | "closed"): Decision {
    const pass = this.#pass(value, label, false);
    return { ...pass, outcome: "undecided", dropped: mode === "closed", failure: mode };
  }

  #standIn(
    taken: Taken,
    value: string | undefined,
    label: string,
    want: number,
    mode: FailureMode,
  ): Decision {
    const id = STAND_IN + taken.id;
    const granted = taken.outcome === "granted";
    return {
      ...this.#decision(taken, value, label, want, false),
      outcome: "undecided",
      requestId: this.#profile.slots ? id : "",
      grant: granted ? this.#grant(label, id, want) : undefined,
      failure: mode,
    };
  }

  #grant(key: string, id: string, amount: number): Grant | undefined {
    if (amount <= 0 && !this.#profile.slots) return undefined;
    const { policyName, componentId } = this.component;
    return { policyName, componentId, key, id, amount };
  }
}
