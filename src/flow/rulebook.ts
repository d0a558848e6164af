// What an agent knows: the rules and numbers that arrived, the state that outlives their changes, and the
// plan compiled from them. A batch is taken in whole; a rule that does not compile leaves its predecessor
// in force and is reported.

import { Fault } from "#base/fault.ts";
import { Slots } from "./label.ts";
import {
  bindLimiter,
  type Limiter,
  type LimiterState,
  type LimitWorld,
  limiterIdentity,
  newLimiterState,
} from "./limit.ts";
import { byComponent, compilePlan, EMPTY_PLAN, type Plan } from "./plan.ts";
import type { LimiterNumbers, LimiterRule, Rule } from "./rules.ts";

/** Keys are the store's: one per rule, and the same key names a limiter's rule and its numbers. */
export interface Changes {
  readonly rules: ReadonlyMap<string, Rule | undefined>;
  readonly numbers: ReadonlyMap<string, LimiterNumbers | undefined>;
}

export interface RefusedRule {
  readonly key: string;
  readonly fault: Fault;
}

/** A limiter rule with what it was bound to. */
interface Bound {
  readonly rule: LimiterRule;
  readonly state: LimiterState;
  /** For numbers and slots, which belong to no control point. */
  readonly limiter: Limiter;
}

export class Rulebook {
  readonly #group: string;
  readonly #world: LimitWorld;
  readonly #rules = new Map<string, Rule>();
  readonly #numbers = new Map<string, LimiterNumbers>();
  /** What each state was last told, so that it is told once. */
  readonly #told = new WeakMap<LimiterState, LimiterNumbers>();
  #states: ReadonlyMap<string, LimiterState> = new Map();
  #bound: ReadonlyMap<string, Bound> = new Map();
  #byPolicy: ReadonlyMap<string, readonly Limiter[]> = new Map();
  #plan: Plan = EMPTY_PLAN;

  constructor(group: string, world: LimitWorld) {
    this.#group = group;
    this.#world = world;
  }

  get plan(): Plan {
    return this.#plan;
  }

  get rules(): ReadonlyMap<string, Rule> {
    return this.#rules;
  }

  /** The limiters of one policy, one for each component. */
  limiters(policyName: string): readonly Limiter[] {
    return this.#byPolicy.get(policyName) ?? [];
  }

  /** Takes one batch in. Everything that it changes is in force when this returns. */
  apply(changes: Changes): readonly RefusedRule[] {
    const refused = this.#takeRules(changes.rules);
    for (const [key, numbers] of changes.numbers) {
      if (numbers === undefined) this.#numbers.delete(key);
      else this.#numbers.set(key, numbers);
    }
    if (changes.rules.size > 0) this.#compile();
    const touched = changes.rules.size > 0 ? this.#bound.keys() : changes.numbers.keys();
    for (const key of touched) this.#tell(key, changes.numbers.has(key));
    return refused;
  }

  #takeRules(rules: Changes["rules"]): readonly RefusedRule[] {
    const refused: RefusedRule[] = [];
    for (const [key, rule] of rules) {
      if (rule === undefined) {
        this.#rules.delete(key);
        continue;
      }
      const fault = this.#faultOf(rule);
      if (fault === undefined) this.#rules.set(key, rule);
      else refused.push({ key, fault });
    }
    return refused;
  }

  /** Compiles a rule by itself, so that one that cannot be compiled harms no other. */
  #faultOf(rule: Rule): Fault | undefined {
    try {
      compilePlan([rule], this.#group, (limiter, slots) =>
        bindLimiter(limiter, slots, newLimiterState(limiter, this.#world), this.#world),
      );
      return undefined;
    } catch (thrown) {
      return Fault.from(thrown);
    }
  }

  #compile(): void {
    const stateOf = this.#carryStates();
    const bind = (rule: LimiterRule, slots: Slots): Limiter => {
      const state = stateOf.get(rule);
      if (state === undefined) throw new Fault("INTERNAL", "limiter rule without a state");
      return bindLimiter(rule, slots, state, this.#world);
    };
    this.#plan = compilePlan([...this.#rules.values()], this.#group, bind, this.#plan);
    const bound = new Map<string, Bound>();
    const byPolicy = new Map<string, Limiter[]>();
    for (const [key, rule] of this.#rules) {
      if (rule.kind === "classifier" || rule.kind === "flux_meter") continue;
      const state = stateOf.get(rule);
      if (state === undefined) continue;
      const limiter = bind(rule, new Slots());
      bound.set(key, { rule, state, limiter });
      const sisters = byPolicy.get(rule.policyName);
      if (sisters === undefined) byPolicy.set(rule.policyName, [limiter]);
      else sisters.push(limiter);
    }
    this.#bound = bound;
    this.#byPolicy = byPolicy;
  }

  /** State follows what its numbers mean, not where the component stands: an insertion moves no bucket. */
  #carryStates(): ReadonlyMap<LimiterRule, LimiterState> {
    const kept = new Map<string, LimiterState>();
    const byRule = new Map<LimiterRule, LimiterState>();
    const twins = new Map<string, number>();
    for (const rule of [...this.#rules.values()].sort(byComponent)) {
      if (rule.kind === "classifier" || rule.kind === "flux_meter") continue;
      const identity = limiterIdentity(rule);
      const twin = twins.get(identity) ?? 0;
      twins.set(identity, twin + 1);
      const name = `${identity}#${twin}`;
      const state = this.#states.get(name) ?? newLimiterState(rule, this.#world);
      kept.set(name, state);
      byRule.set(rule, state);
    }
    this.#states = kept;
    return byRule;
  }

  /**
   * Hands numbers to the limiter whose policy version they name. A component that changed judges by its
   * last numbers until its own arrive: those its state was told, or, where what they mean has changed and
   * the state is new, those that its predecessor at this place had. Only numbers that were taken away open
   * it again.
   */
  #tell(key: string, changed: boolean): void {
    const bound = this.#bound.get(key);
    if (bound === undefined) return;
    const numbers = this.#numbers.get(key);
    const told = this.#told.get(bound.state);
    if (numbers === undefined) {
      if (!changed) return;
      this.#told.delete(bound.state);
      bound.limiter.decide(undefined);
    } else if (numbers !== told && (numbers.policyHash === bound.rule.policyHash || !told)) {
      this.#told.set(bound.state, numbers);
      bound.limiter.decide(numbers);
    }
  }
}
