// What rate limiters and concurrency limiters share: from labels to one request to a counter engine, and from
// its answer to a Decision and a Grant.

import { type Component, type Decision, type Grant, Pending } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { FailureMode, TokenDetail } from "../rules.ts";
import type { CounterEngine, EngineAnswer, LocalEngine } from "./counters/counter-engine.ts";
import { LimiterInput, type LimiterInputRule } from "./limiter-input.ts";

/** Numbers of an answer that a detail reports. */
interface Counts {
  readonly remaining: number;
  readonly current: number;
}

/** Makes the detail of one kind. `id` identifies what was taken, where the kind reports that. */
export type MakeDetail<Detail extends TokenDetail> = (
  label: string,
  value: string | undefined,
  counts: Counts,
  consumed: number,
  id: string,
) => Detail;

/** The differences between the kinds. */
export interface CountingKind<Detail extends TokenDetail> {
  readonly detail: MakeDetail<Detail>;
  /** A flow that wants zero tokens still holds a slot, which has to be given back. */
  readonly grantsNothing: boolean;
}

/** Precedes ids of the local engine in grants that it gave in place of another engine. */
const LOCAL_PREFIX = "local/";

const NOTHING: Counts = { remaining: 0, current: 0 };

export class CountingLimiter<Params, Detail extends TokenDetail> {
  readonly component: Component;
  readonly #input: LimiterInput;
  readonly #engine: CounterEngine<Params>;
  readonly #local: LocalEngine<Params>;
  readonly #observer: Observer;
  readonly #detail: MakeDetail<Detail>;
  readonly #grantsNothing: boolean;

  constructor(
    component: Component,
    rule: LimiterInputRule,
    slots: LabelSlots,
    observer: Observer,
    engines: { readonly engine: CounterEngine<Params>; readonly local: LocalEngine<Params> },
    kind: CountingKind<Detail>,
  ) {
    this.component = component;
    this.#input = new LimiterInput(rule, slots, observer);
    this.#engine = engines.engine;
    this.#local = engines.local;
    this.#observer = observer;
    this.#detail = kind.detail;
    this.#grantsNothing = kind.grantsNothing;
  }

  /** `params` is undefined while the limiter is open: everything passes and nothing is counted. */
  peek(labels: Labels, now: number, params: Params | undefined): Decision<Detail> {
    const value = this.#input.value(labels);
    if (value === undefined && this.#input.keyed) return this.#pass(undefined, "", true);
    const label = this.#input.label(labels);
    if (params === undefined) return this.#pass(value, label, false);
    const want = this.#input.tokens(labels, true);
    return this.#decision(this.#engine.peek(value, want, params, now), value, label, want, false);
  }

  take(labels: Labels, now: number, params: Params | undefined): Decision | Pending<Decision> {
    const value = this.#input.value(labels);
    if (value === undefined && this.#input.keyed) {
      this.#observer.anomaly("missing_limit_label");
      return this.#pass(undefined, "", true);
    }
    const label = this.#input.label(labels);
    if (params === undefined) return this.#pass(value, label, false);
    const want = this.#input.tokens(labels, false);
    const taken = this.#engine.take(value, want, params, now);
    if (taken instanceof Pending) return this.#later(taken, value, label, want, params, now);
    return this.#settle(taken, value, label, want, params, now);
  }

  /** The decision once the engine has answered. Apart from `take`, where its closures would cost 100 bytes a call. */
  #later(
    taken: Pending<EngineAnswer>,
    value: string | undefined,
    label: string,
    want: number,
    params: Params,
    now: number,
  ): Pending<Decision> {
    const decision = new Pending<Decision>(() => taken.cancel());
    taken.whenSettled(
      (late) => decision.settle(this.#settle(late, value, label, want, params, now)),
      (thrown) => decision.fail(thrown),
    );
    return decision;
  }

  /** False when the engine does not know (any more) what was taken. */
  giveBack(grant: Grant, params: Params): boolean {
    if (!this.#input.owns(grant.key)) return false;
    const value = this.#input.valueOf(grant.key);
    if (!grant.id.startsWith(LOCAL_PREFIX)) {
      return this.#engine.giveBack(value, grant.amount, grant.id, params);
    }
    return this.#local.giveBack(value, grant.amount, grant.id.slice(LOCAL_PREFIX.length), params);
  }

  #settle(
    taken: EngineAnswer,
    value: string | undefined,
    label: string,
    want: number,
    params: Params,
    now: number,
  ): Decision<Detail> {
    if (taken.outcome !== "undecided") return this.#decision(taken, value, label, want, true);
    this.#observer.anomaly("undecided");
    const mode = this.component.onFailure;
    if (mode === "open" || mode === "closed") return this.#undecided(value, label, mode);
    const answer = this.#local.take(value, want, params, now);
    return this.#fromLocal(answer, value, label, want, mode);
  }

  /** Passes without asking the engine: the flow lacks the key, or the limiter is open. */
  #pass(value: string | undefined, label: string, keyMissing: boolean): Decision<Detail> {
    return {
      component: this.component,
      outcome: "granted",
      dropped: false,
      keyMissing,
      waitMs: 0,
      grantId: undefined,
      failure: undefined,
      detail: this.#detail(label, value, NOTHING, 0, ""),
    };
  }

  #decision(
    taken: EngineAnswer,
    value: string | undefined,
    label: string,
    want: number,
    real: boolean,
  ): Decision<Detail> {
    const granted = taken.outcome === "granted";
    return {
      component: this.component,
      outcome: taken.outcome,
      dropped: taken.outcome === "refused",
      keyMissing: false,
      waitMs: taken.waitMs,
      grantId: granted && real && this.#grants(want) ? taken.id : undefined,
      failure: undefined,
      detail: this.#detail(label, value, taken, granted ? want : 0, taken.id),
    };
  }

  #undecided(value: string | undefined, label: string, mode: "open" | "closed"): Decision<Detail> {
    const pass = this.#pass(value, label, false);
    return { ...pass, outcome: "undecided", dropped: mode === "closed", failure: mode };
  }

  /** The answer of the local engine, where the engine itself could not decide. */
  #fromLocal(
    taken: EngineAnswer,
    value: string | undefined,
    label: string,
    want: number,
    mode: FailureMode,
  ): Decision<Detail> {
    const id = LOCAL_PREFIX + taken.id;
    const granted = taken.outcome === "granted";
    return {
      ...this.#decision(taken, value, label, want, false),
      outcome: "undecided",
      grantId: granted && this.#grants(want) ? id : undefined,
      failure: mode,
      detail: this.#detail(label, value, taken, granted ? want : 0, id),
    };
  }

  /** Whether taking `amount` leaves something that could be given back. */
  #grants(amount: number): boolean {
    return amount > 0 || this.#grantsNothing;
  }
}
