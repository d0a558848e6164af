// The common part of rate limiters and concurrency limiters: turns labels into one request to a counter engine, and its
// answer into a Decision and a Grant.

import { decidesAlone, type FailureMode } from "#base/failure-mode.ts";
import type { CounterEngine, EngineAnswer, LocalEngine } from "../counters/counter-engine.ts";
import {
  type Component,
  type Decision,
  type Grant,
  type InQueue,
  Missing,
  Pending,
} from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { MissingLabelMode, TokenDetail } from "../rules.ts";
import { LimiterInput, type LimiterInputRule } from "./limiter-input.ts";
import type { Substitute } from "./stand-in.ts";

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

export interface CountingRule extends LimiterInputRule {
  readonly onMissingLabel: MissingLabelMode;
}

/** The differences between the kinds. */
export interface CountingKind<Detail extends TokenDetail> {
  readonly detail: MakeDetail<Detail>;
  /** A flow that wants zero tokens still holds a slot, which has to be given back. */
  readonly grantsNothing: boolean;
}

/** Tokens that a scheduler asks for: it has read their number itself, and may ask more than once. */
export interface Asked {
  readonly tokens: number;
  /** Undefined for a flow that does not wait yet. */
  readonly queued: InQueue | undefined;
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
  readonly #onMissingLabel: MissingLabelMode;
  readonly #detail: MakeDetail<Detail>;
  readonly #grantsNothing: boolean;

  constructor(
    component: Component,
    rule: CountingRule,
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
    this.#onMissingLabel = rule.onMissingLabel;
    this.#detail = kind.detail;
    this.#grantsNothing = kind.grantsNothing;
  }

  /**
   * `params` is undefined while nothing is counted. `standIn` says what answers instead, or that the numbers in
   * `params` are no longer valid; it is undefined where they are.
   */
  peek(
    labels: Labels,
    now: number,
    params: Params | undefined,
    standIn: Substitute | undefined,
    asked?: Asked,
  ): Decision<Detail> {
    const value = this.#input.value(labels);
    const keyless = value === undefined && this.#input.keyed;
    if (keyless && this.#onMissingLabel !== "default_key") return this.#keyMissing();
    const label = this.#input.label(labels, value);
    if (params === undefined) return this.#uncounted(value, label, standIn);
    const tokens = asked?.tokens ?? this.#input.tokens(labels, true);
    const want = Math.abs(tokens);
    const answer = this.#engine.peek(value, want, params, now);
    const { onFailure } = this.component;
    if (answer.full && decidesAlone(onFailure)) return this.#undecided(value, label, onFailure);
    const decision = this.#decision(answer, value, label, want, false);
    return noted(decision, missingOf(keyless, tokens), standIn);
  }

  take(
    labels: Labels,
    now: number,
    params: Params | undefined,
    standIn: Substitute | undefined,
    asked?: Asked,
  ): Decision | Pending<Decision> {
    const value = this.#input.value(labels);
    const keyless = value === undefined && this.#input.keyed;
    if (keyless) {
      if (asked?.queued === undefined) this.#observer.missingLabel(this.component, "key");
      if (this.#onMissingLabel !== "default_key") return this.#keyMissing();
    }
    const label = this.#input.label(labels, value);
    if (params === undefined) {
      if (standIn !== "pass_through") this.#observer.anomaly("undecided");
      return this.#uncounted(value, label, standIn);
    }
    const tokens = asked?.tokens ?? this.#input.tokens(labels, false);
    if (tokens < 0) this.#observer.missingLabel(this.component, "tokens");
    // Without the label a flow counts as one token.
    const want = Math.abs(tokens);
    const taken = this.#engine.take(value, want, params, now, asked?.queued);
    const decision =
      taken instanceof Pending
        ? this.#later(taken, value, label, want, params, now)
        : this.#settle(taken, value, label, want, params, now);
    const missing = missingOf(keyless, tokens);
    return missing === Missing.nothing && standIn === undefined
      ? decision
      : whenNoted(decision, missing, standIn);
  }

  /** The decision once the engine has answered. Apart from `take`, where its closure would cost memory in every call. */
  #later(
    taken: Pending<EngineAnswer>,
    value: string | undefined,
    label: string,
    want: number,
    params: Params,
    now: number,
  ): Pending<Decision> {
    return taken.chain<Decision>((late) => {
      // A local engine reports this itself.
      if (late.full) this.#observer.anomaly("keys_overflow");
      return this.#settle(late, value, label, want, params, now);
    });
  }

  /** False when the engine does not know (any more) what was taken, or cannot be asked. `unused`: the flow did not run. */
  giveBack(grant: Grant, params: Params, unused = false): boolean | Pending<boolean> {
    if (!this.#input.owns(grant.key)) return false;
    const { value, id, local } = this.originOf(grant);
    const engine = local ? this.#local : this.#engine;
    return engine.giveBack(value, grant.amount, id, params, unused);
  }

  /** The count that a grant of this limiter came from: its key, its id there, and whether the local engine answered. */
  originOf({ key, id }: Grant): {
    readonly value: string | undefined;
    readonly id: string;
    readonly local: boolean;
  } {
    const value = this.#input.valueOf(key);
    const local = id.startsWith(LOCAL_PREFIX);
    return { value, id: local ? id.slice(LOCAL_PREFIX.length) : id, local };
  }

  #settle(
    taken: EngineAnswer,
    value: string | undefined,
    label: string,
    want: number,
    params: Params,
    now: number,
  ): Decision<Detail> {
    const mode = this.component.onFailure;
    if (taken.full && decidesAlone(mode)) {
      if (taken.outcome === "granted") this.#engine.giveBack(value, want, taken.id, params, true);
      return this.#undecided(value, label, mode);
    }
    if (taken.outcome !== "undecided") return this.#decision(taken, value, label, want, true);
    this.#observer.anomaly("undecided");
    if (decidesAlone(mode)) return this.#undecided(value, label, mode);
    const answer = this.#local.take(value, want, params, now);
    return this.#fromLocal(answer, value, label, want, mode);
  }

  /** The flow lacks the key, and has no default one: it passes or is refused without asking the engine. */
  #keyMissing(): Decision<Detail> {
    const decision = this.#pass(undefined, "", Missing.key);
    if (this.#onMissingLabel === "pass") return decision;
    return { ...decision, outcome: "refused", dropped: true };
  }

  /** The decision while there are no numbers to count by. */
  #uncounted(value: string | undefined, label: string, standIn: Substitute | undefined) {
    return standIn === "open" || standIn === "closed"
      ? this.#undecided(value, label, standIn)
      : this.#pass(value, label, Missing.nothing);
  }

  #pass(value: string | undefined, label: string, missing: number): Decision<Detail> {
    return {
      component: this.component,
      outcome: "granted",
      dropped: false,
      missing,
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
      missing: Missing.nothing,
      waitMs: taken.waitMs,
      grantId: granted && real && this.#grants(want) ? taken.id : undefined,
      failure: undefined,
      detail: this.#detail(label, value, taken, granted ? want : 0, taken.id),
    };
  }

  #undecided(value: string | undefined, label: string, mode: "open" | "closed"): Decision<Detail> {
    const pass = this.#pass(value, label, Missing.nothing);
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

/** `tokens` as the limiter's input reads them: negative without their label. */
function missingOf(keyless: boolean, tokens: number): number {
  return (keyless ? Missing.defaultKey : 0) | (tokens < 0 ? Missing.tokens : 0);
}

/** A decision that says which labels were missing, and which failure mode made the numbers that it counted by. */
function noted<D extends Decision>(
  decision: D,
  missing: number,
  standIn: Substitute | undefined,
): D {
  const failure = standIn === "last_known" ? (decision.failure ?? standIn) : decision.failure;
  return { ...decision, missing, failure };
}

function whenNoted(
  decision: Decision | Pending<Decision>,
  missing: number,
  standIn: Substitute | undefined,
): Decision | Pending<Decision> {
  return decision instanceof Pending
    ? decision.chain((late) => noted(late, missing, standIn))
    : noted(decision, missing, standIn);
}
