// The rules and numbers that have arrived, the state of limiters, which outlives changes, and the plan. A batch takes effect
// as a whole. A rule that does not compile is reported, and its predecessor stays in force.

import { finish } from "#base/async/steps.ts";
import { Fault } from "#base/fault.ts";
import type { Limiter, LimiterContext } from "./limit/limiter.ts";
import {
  bindRule,
  type KindTable,
  LIMITER_KINDS,
  type LimiterState,
  newState,
  type SharedContext,
  shareContext,
  stateIdentity,
} from "./plan/kinds.ts";
import { type Bind, compilePlan, type Plan } from "./plan/plan.ts";
import { inOrder } from "./plan/rule-order.ts";
import type { LimiterNumbers, LimiterRule, Rule } from "./rules.ts";

/** By keys of the store. The rule of a limiter and its numbers have the same key. */
export interface RuleChanges {
  readonly rules: ReadonlyMap<string, Rule | undefined>;
  readonly numbers: ReadonlyMap<string, LimiterNumbers | undefined>;
}

export interface RefusedRule {
  readonly key: string;
  readonly fault: Fault;
}

/** A limiter rule that is in the plan. */
interface BoundLimiter {
  readonly rule: LimiterRule;
  readonly state: LimiterState;
  /** One of its limiters in the plan. They share state, so any of them can adopt numbers and end slots. */
  readonly limiter: Limiter;
}

/** The result of a change of rules, before any of it is in force. */
interface Renewed {
  readonly rules: ReadonlyMap<string, Rule>;
  readonly plan: Plan;
  /** By name. */
  readonly states: ReadonlyMap<string, LimiterState>;
  readonly stateOf: ReadonlyMap<LimiterRule, LimiterState>;
}

export class Rulebook {
  readonly #group: string;
  readonly #context: SharedContext;
  readonly #kinds: KindTable;
  #rules: ReadonlyMap<string, Rule> = new Map();
  readonly #numbers = new Map<string, LimiterNumbers>();
  /** The numbers that each state has adopted. */
  readonly #adopted = new WeakMap<LimiterState, LimiterNumbers>();
  readonly #trials = new Map<Rule["kind"], LimiterState>();
  /** The state identity of each rule, so that a change of one rule need not derive all others again. */
  readonly #identities = new WeakMap<LimiterRule, string>();
  #states: ReadonlyMap<string, LimiterState> = new Map();
  #bound: ReadonlyMap<string, BoundLimiter> = new Map();
  #byPolicy: ReadonlyMap<string, readonly Limiter[]> = new Map();
  #plan: Plan;

  constructor(group: string, context: LimiterContext, kinds: KindTable = LIMITER_KINDS) {
    this.#group = group;
    this.#context = shareContext(context);
    this.#kinds = kinds;
    this.#plan = finish(compilePlan([], group, kinds, this.#bindOnTrial));
  }

  get plan(): Plan {
    return this.#plan;
  }

  get rules(): ReadonlyMap<string, Rule> {
    return this.#rules;
  }

  /** The numbers under the key of a rule, even if the rule itself is missing. */
  numbersOf(key: string): LimiterNumbers | undefined {
    return this.#numbers.get(key);
  }

  /** The limiters of one policy, one for each component. */
  limiters(policyName: string): readonly Limiter[] {
    return this.#byPolicy.get(policyName) ?? [];
  }

  /** Applies one batch, which is in force when this returns. */
  apply(changes: RuleChanges): readonly RefusedRule[] {
    return finish(this.applyInSteps(changes));
  }

  /**
   * Applies one batch in steps. Flows are judged by the old plan until the last step puts the new one in force. Apply one
   * batch at a time.
   */
  *applyInSteps(changes: RuleChanges): Generator<void, readonly RefusedRule[]> {
    const refused: RefusedRule[] = [];
    const renewed =
      changes.rules.size > 0 ? yield* this.#renewed(changes.rules, refused) : undefined;
    for (const [key, numbers] of changes.numbers) {
      if (numbers === undefined) this.#numbers.delete(key);
      else this.#numbers.set(key, numbers);
    }
    if (renewed !== undefined) this.#put(renewed);
    const touched = renewed !== undefined ? this.#bound.keys() : changes.numbers.keys();
    for (const key of touched) this.#adoptNumbers(key, changes.numbers.has(key));
    if (renewed !== undefined) {
      for (const { limiter } of this.#bound.values()) limiter.showGauges?.();
    }
    return refused;
  }

  /** The rules after a change, without those that do not compile, which are added to `refused`. */
  *#changed(
    changes: RuleChanges["rules"],
    refused: RefusedRule[],
  ): Generator<void, ReadonlyMap<string, Rule>> {
    const rules = new Map(this.#rules);
    for (const [key, rule] of changes) {
      yield;
      const fault = rule === undefined ? undefined : this.#faultOf(rule);
      if (fault !== undefined) refused.push({ key, fault });
      else if (rule === undefined) rules.delete(key);
      else rules.set(key, rule);
    }
    return rules;
  }

  /** Compiles a rule by itself, so that a faulty one affects no other. */
  #faultOf(rule: Rule): Fault | undefined {
    try {
      finish(compilePlan([rule], this.#group, this.#kinds, this.#bindOnTrial));
      return undefined;
    } catch (thrown) {
      return Fault.from(thrown);
    }
  }

  /** Binds for a compilation whose plan is thrown away. All rules of a kind share one state. */
  readonly #bindOnTrial: Bind = (rule, slots) => {
    let state = this.#trials.get(rule.kind);
    if (state === undefined) {
      state = newState(rule, { ...this.#context, sharedCounters: undefined }, this.#kinds, "");
      this.#trials.set(rule.kind, state);
    }
    return { limiter: bindRule(rule, slots, state, this.#context, this.#kinds), state };
  };

  *#renewed(changes: RuleChanges["rules"], refused: RefusedRule[]): Generator<void, Renewed> {
    const rules = yield* this.#changed(changes, refused);
    const sorted = inOrder(rules.values());
    const states = new Map<string, LimiterState>();
    const stateOf = yield* this.#carryStates(sorted, states);
    const bind: Bind = (rule, slots) => {
      const state = stateOf.get(rule);
      if (state === undefined) throw new Fault("INTERNAL", "limiter rule without a state");
      return { limiter: bindRule(rule, slots, state, this.#context, this.#kinds), state };
    };
    const plan = yield* compilePlan(sorted, this.#group, this.#kinds, bind, this.#plan);
    return { rules, plan, states, stateOf };
  }

  #put({ rules, plan, states, stateOf }: Renewed): void {
    const limiterOf = limitersByRule(plan);
    const bound = new Map<string, BoundLimiter>();
    const byPolicy = new Map<string, Limiter[]>();
    for (const [key, rule] of rules) {
      if (!isLimiterRule(rule)) continue;
      const state = stateOf.get(rule);
      // Rules for other agent groups are in no plan.
      const limiter = limiterOf.get(rule);
      if (state === undefined || limiter === undefined) continue;
      bound.set(key, { rule, state, limiter });
      const others = byPolicy.get(rule.policyName);
      if (others === undefined) byPolicy.set(rule.policyName, [limiter]);
      else others.push(limiter);
    }
    for (const [name, state] of this.#states) if (!states.has(name)) state.close();
    this.#rules = rules;
    this.#plan = plan;
    this.#states = states;
    this.#bound = bound;
    this.#byPolicy = byPolicy;
  }

  /**
   * Finds the state of each rule by the meaning of its numbers, so that an inserted component moves no bucket. Adds all
   * states to `states`, by name.
   */
  *#carryStates(
    rules: readonly Rule[],
    states: Map<string, LimiterState>,
  ): Generator<void, ReadonlyMap<LimiterRule, LimiterState>> {
    const byRule = new Map<LimiterRule, LimiterState>();
    const counts = new Map<string, number>();
    for (const rule of rules) {
      if (!isLimiterRule(rule)) continue;
      yield;
      const identity = this.#identityOf(rule);
      const number = counts.get(identity) ?? 0;
      counts.set(identity, number + 1);
      const name = `${identity}#${number}`;
      const state = this.#states.get(name) ?? newState(rule, this.#context, this.#kinds, name);
      states.set(name, state);
      byRule.set(rule, state);
    }
    return byRule;
  }

  #identityOf(rule: LimiterRule): string {
    const known = this.#identities.get(rule);
    if (known !== undefined) return known;
    const identity = stateIdentity(rule, this.#kinds);
    this.#identities.set(rule, identity);
    return identity;
  }

  /**
   * Gives numbers to the limiter of the policy version that they name. A changed limiter decides by earlier numbers until
   * its own arrive: by those that its state adopted or, if its state is new, by those under its key. Only the removal of
   * its numbers leaves it without any.
   */
  #adoptNumbers(key: string, changed: boolean): void {
    const bound = this.#bound.get(key);
    if (bound === undefined) return;
    const { rule, state, limiter } = bound;
    const numbers = this.#numbers.get(key);
    const adopted = this.#adopted.get(state);
    if (numbers === undefined) {
      if (!changed) return;
      this.#adopted.delete(state);
      limiter.decide(undefined);
    } else if (numbers !== adopted && (numbers.policyHash === rule.policyHash || !adopted)) {
      this.#adopted.set(state, numbers);
      // Numbers of another kind count as none.
      limiter.decide(numbers.kind === rule.kind ? numbers : undefined);
    }
  }
}

function isLimiterRule(rule: Rule): rule is LimiterRule {
  return rule.kind !== "classifier" && rule.kind !== "flux_meter";
}

/** One limiter for each rule, also where the rule applies at several control points. */
function limitersByRule({ controlPoints }: Plan): ReadonlyMap<LimiterRule, Limiter> {
  const found = new Map<LimiterRule, Limiter>();
  for (const { rules, limiters } of controlPoints.values()) {
    for (const [at, rule] of rules.filter(isLimiterRule).entries()) {
      const limiter = limiters[at];
      if (limiter !== undefined) found.set(rule, limiter);
    }
  }
  return found;
}
