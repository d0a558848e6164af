// The common part of rate limiters and concurrency limiters: it turns labels into a request to a counter engine, and the
// answer of the engine into a decision.

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
import { type Fallback, fallbackFor, type InvalidNumbers } from "./fallback.ts";
import { LimiterInput, type LimiterInputRule } from "./limiter-input.ts";

/** Numbers of an answer that a detail reports. */
interface Counts {
  readonly remaining: number;
  readonly current: number;
}

interface CountingRule extends LimiterInputRule {
  readonly onMissingLabel: MissingLabelMode;
}

/** The differences between the kinds. */
export interface CountingKind<Detail extends TokenDetail> {
  /** `id` identifies the grant. */
  detail(
    label: string,
    value: string | undefined,
    counts: Counts,
    consumed: number,
    id: string,
  ): Detail;
  /** A flow that wants zero tokens still holds a slot, which has to be given back. */
  readonly grantsNothing: boolean;
}

/** The tokens that a scheduler asks for. It reads their number itself, and may ask more than once. */
export interface TokenRequest {
  readonly tokens: number;
  /** Undefined for a flow that is not queued yet. */
  readonly head: InQueue | undefined;
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
  readonly #detail: CountingKind<Detail>["detail"];
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

  /** `params` are those that were valid last, and undefined if none were; `invalid` says why they are not valid now. */
  take(
    labels: Labels,
    now: number,
    params: Params | undefined,
    invalid: InvalidNumbers | undefined,
    request?: TokenRequest,
  ): Decision | Pending<Decision> {
    const value = this.#input.value(labels);
    const keyless = value === undefined && this.#input.keyed;
    if (keyless) {
      if (request?.head === undefined) this.#observer.missingLabel(this.component, "key");
      if (this.#onMissingLabel !== "default_key") return this.#keyMissing();
    }
    const label = this.#input.label(labels, value);
    const fallback = this.#fallback(params, invalid);
    if (params === undefined || !isCounted(fallback)) {
      if (fallback !== "pass_through") this.#observer.anomaly("undecided");
      return fallback === "open" || fallback === "closed"
        ? this.#undecided(value, label, fallback)
        : this.#pass(value, label, Missing.nothing);
    }
    const tokens = request?.tokens ?? this.#input.tokens(labels);
    if (tokens < 0) this.#observer.missingLabel(this.component, "tokens");
    // Without the label a flow counts as one token.
    const want = Math.abs(tokens);
    const taken = this.#engine.take(value, want, params, now, request?.head);
    const decision =
      taken instanceof Pending
        ? this.#later(taken, value, label, want, params, now)
        : this.#decide(taken, value, label, want, params, now);
    const missing = (keyless ? Missing.defaultKey : 0) | (tokens < 0 ? Missing.tokens : 0);
    if (missing === Missing.nothing && fallback === undefined) return decision;
    return decision instanceof Pending
      ? decision.chain((late) => noted(late, missing, fallback))
      : noted(decision, missing, fallback);
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
      return this.#decide(late, value, label, want, params, now);
    });
  }

  /** True if flows are counted by these parameters. */
  counts(params: Params | undefined, invalid: InvalidNumbers | undefined): boolean {
    return params !== undefined && isCounted(this.#fallback(params, invalid));
  }

  #fallback(params: Params | undefined, invalid: InvalidNumbers | undefined) {
    return invalid === undefined
      ? undefined
      : fallbackFor(invalid, this.component, params !== undefined);
  }

  /** False when the engine does not know the grant, or cannot be asked. `unused`: the flow did not run. */
  giveBack(grant: Grant, params: Params, unused = false): boolean | Pending<boolean> {
    if (!this.#input.owns(grant.key)) return false;
    const { value, id, local } = this.originOf(grant);
    const engine = local ? this.#local : this.#engine;
    return engine.giveBack(value, grant.amount, id, params, unused);
  }

  /** Where a grant of this limiter was counted: its key, its id there, and whether the local engine granted it. */
  originOf({ key, id }: Grant): {
    readonly value: string | undefined;
    readonly id: string;
    readonly local: boolean;
  } {
    const value = this.#input.valueOf(key);
    const local = id.startsWith(LOCAL_PREFIX);
    return { value, id: local ? id.slice(LOCAL_PREFIX.length) : id, local };
  }

  #decide(
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
    if (taken.outcome !== "undecided") return this.#decision(taken, value, label, want, taken.id);
    this.#observer.anomaly("undecided");
    if (decidesAlone(mode)) return this.#undecided(value, label, mode);
    return this.#byLocal(this.#local.take(value, want, params, now), value, label, want, mode);
  }

  /** The flow lacks the key, and has no default one: it passes or is refused without asking the engine. */
  #keyMissing(): Decision<Detail> {
    const decision = this.#pass(undefined, "", Missing.key);
    if (this.#onMissingLabel === "pass") return decision;
    return { ...decision, outcome: "refused", dropped: true };
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
    id: string,
  ): Decision<Detail> {
    const granted = taken.outcome === "granted";
    return {
      component: this.component,
      outcome: taken.outcome,
      dropped: taken.outcome === "refused",
      missing: Missing.nothing,
      waitMs: taken.waitMs,
      grantId: granted && (want > 0 || this.#grantsNothing) ? id : undefined,
      failure: undefined,
      detail: this.#detail(label, value, taken, granted ? want : 0, id),
    };
  }

  #undecided(value: string | undefined, label: string, mode: "open" | "closed"): Decision<Detail> {
    const pass = this.#pass(value, label, Missing.nothing);
    return { ...pass, outcome: "undecided", dropped: mode === "closed", failure: mode };
  }

  /** The answer of the local engine, where the engine itself could not decide. */
  #byLocal(
    taken: EngineAnswer,
    value: string | undefined,
    label: string,
    want: number,
    failure: FailureMode,
  ): Decision<Detail> {
    const decision = this.#decision(taken, value, label, want, LOCAL_PREFIX + taken.id);
    return { ...decision, outcome: "undecided", failure };
  }
}

/** True if a limiter counts with this fallback. */
function isCounted(fallback: Fallback | undefined): boolean {
  return fallback === undefined || fallback === "last_known";
}

/** A decision that says which labels were missing, and which failure mode made the numbers that it counted by. */
function noted<D extends Decision>(
  decision: D,
  missing: number,
  fallback: Fallback | undefined,
): D {
  const failure = fallback === "last_known" ? (decision.failure ?? fallback) : decision.failure;
  return { ...decision, missing, failure };
}
