// Everything that an agent decides by: the rules and numbers that arrived, the limiter state that outlives their
// changes, and the plan compiled from them. A batch takes effect whole; a rule that does not compile leaves its predecessor in force
// and is reported.

import { finish } from "#base/async/steps.ts";
import { Fault } from "#base/fault.ts";
import type { LimiterContext, StageMember } from "./limit/stage-member.ts";
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
import { type Bind, type BoundMember, compilePlan, type Plan } from "./plan/plan.ts";
import { inOrder } from "./plan/rule-order.ts";
import type { LimiterNumbers, LimiterRule, Rule } from "./rules.ts";

/**
 * Rules and numbers that arrived; undefined removes a key. Keys are those of the store: one per rule, and the same key
 * identifies a limiter's rule and its numbers.
 */
export interface RuleChanges {
  readonly rules: ReadonlyMap<string, Rule | undefined>;
  readonly numbers: ReadonlyMap<string, LimiterNumbers | undefined>;
}

export interface RefusedRule {
  readonly key: string;
  readonly fault: Fault;
}

/** A rule and one of its members in the plan. They share state, so any of them can adopt numbers and end slots. */
interface BoundLimiter extends BoundMember {
  readonly rule: LimiterRule;
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
  /** The numbers that each state has adopted, so that it adopts them once. */
  readonly #adopted = new WeakMap<LimiterState, LimiterNumbers>();
  readonly #trials = new Map<Rule["kind"], LimiterState>();
  /** The state identity of each rule: a change of one rule does not derive those of all others again. */
  readonly #identities = new WeakMap<LimiterRule, string>();
  #states: ReadonlyMap<string, LimiterState> = new Map();
  #bound: ReadonlyMap<string, BoundLimiter> = new Map();
  #byPolicy: ReadonlyMap<string, readonly StageMember[]> = new Map();
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

  /** The numbers for this key of a rule, even if the rule itself is missing. */
  numbersOf(key: string): LimiterNumbers | undefined {
    return this.#numbers.get(key);
  }

  /** The stage members of one policy, one for each component. */
  members(policyName: string): readonly StageMember[] {
    return this.#byPolicy.get(policyName) ?? [];
  }

  /** Applies one batch. Everything that it changes is in force when this returns. */
  apply(changes: RuleChanges): readonly RefusedRule[] {
    return finish(this.applyInSteps(changes));
  }

  /**
   * As `apply`, in steps. Flows are judged by what was in force before until the last step, in which all of it changes.
   * One batch at a time.
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
      for (const { member } of this.#bound.values())
        if ("showGauges" in member) member.showGauges?.();
    }
    return refused;
  }

  /** The rules after a change, without those that do not compile: they are added to `refused`. */
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

  /** Compiles a rule by itself, so that one that does not compile affects no other. */
  #faultOf(rule: Rule): Fault | undefined {
    try {
      finish(compilePlan([rule], this.#group, this.#kinds, this.#bindOnTrial));
      return undefined;
    } catch (thrown) {
      return Fault.from(thrown);
    }
  }

  /** Binds to a state that counts nothing, which all rules of a kind share: whatever is bound here is thrown away. */
  readonly #bindOnTrial: Bind = (rule, slots) => {
    let state = this.#trials.get(rule.kind);
    if (state === undefined) {
      state = newState(rule, { ...this.#context, sharedCounters: undefined }, this.#kinds, "");
      this.#trials.set(rule.kind, state);
    }
    return { member: bindRule(rule, slots, state, this.#context, this.#kinds), state };
  };

  *#renewed(changes: RuleChanges["rules"], refused: RefusedRule[]): Generator<void, Renewed> {
    const rules = yield* this.#changed(changes, refused);
    const sorted = inOrder(rules.values());
    const states = new Map<string, LimiterState>();
    const stateOf = yield* this.#carryStates(sorted, states);
    const bind: Bind = (rule, slots) => {
      const state = stateOf.get(rule);
      if (state === undefined) throw new Fault("INTERNAL", "limiter rule without a state");
      return { member: bindRule(rule, slots, state, this.#context, this.#kinds), state };
    };
    const plan = yield* compilePlan(sorted, this.#group, this.#kinds, bind, this.#plan);
    return { rules, plan, states, stateOf };
  }

  #put({ rules, plan, states, stateOf }: Renewed): void {
    const memberOf = membersByRule(plan);
    const bound = new Map<string, BoundLimiter>();
    const byPolicy = new Map<string, StageMember[]>();
    for (const [key, rule] of rules) {
      if (!isLimiterRule(rule)) continue;
      const state = stateOf.get(rule);
      // Rules for other agent groups are in no plan.
      const member = memberOf.get(rule);
      if (state === undefined || member === undefined) continue;
      bound.set(key, { rule, state, member });
      const sisters = byPolicy.get(rule.policyName);
      if (sisters === undefined) byPolicy.set(rule.policyName, [member]);
      else sisters.push(member);
    }
    for (const [name, state] of this.#states) if (!states.has(name)) state.close();
    this.#rules = rules;
    this.#plan = plan;
    this.#states = states;
    this.#bound = bound;
    this.#byPolicy = byPolicy;
  }

  /**
   * Finds each rule's state by what its numbers mean, not by position: an inserted component moves no bucket. All states
   * are added to `states`, by name.
   */
  *#carryStates(
    rules: readonly Rule[],
    states: Map<string, LimiterState>,
  ): Generator<void, ReadonlyMap<LimiterRule, LimiterState>> {
    const byRule = new Map<LimiterRule, LimiterState>();
    const twins = new Map<string, number>();
    for (const rule of rules) {
      if (!isLimiterRule(rule)) continue;
      yield;
      const identity = this.#identityOf(rule);
      const twin = twins.get(identity) ?? 0;
      twins.set(identity, twin + 1);
      const name = `${identity}#${twin}`;
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
   * Gives numbers to the component of the policy version that they name. A changed component keeps deciding by
   * earlier numbers until its own arrive: by those that its state adopted or, if its state is new because the
   * numbers now mean something else, by those stored under its key. Only the removal of its numbers opens it.
   */
  #adoptNumbers(key: string, changed: boolean): void {
    const bound = this.#bound.get(key);
    if (bound === undefined) return;
    const { rule, state, member } = bound;
    const numbers = this.#numbers.get(key);
    const adopted = this.#adopted.get(state);
    if (numbers === undefined) {
      if (!changed) return;
      this.#adopted.delete(state);
      member.decide?.(undefined);
    } else if (numbers !== adopted && (numbers.policyHash === rule.policyHash || !adopted)) {
      this.#adopted.set(state, numbers);
      // Numbers of another kind mean nothing to this one.
      member.decide?.(numbers.kind === rule.kind ? numbers : undefined);
    }
  }
}

function isLimiterRule(rule: Rule): rule is LimiterRule {
  return rule.kind !== "classifier" && rule.kind !== "flux_meter";
}

/** One member for each limiter rule: where a rule is in force at several control points, any of them. */
function membersByRule({ controlPoints }: Plan): ReadonlyMap<LimiterRule, StageMember> {
  const found = new Map<LimiterRule, StageMember>();
  for (const { rules, members } of controlPoints.values()) {
    for (const [at, rule] of rules.filter(isLimiterRule).entries()) {
      const member = members[at];
      if (member !== undefined) found.set(rule, member);
    }
  }
  return found;
}
