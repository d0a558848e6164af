// The plan: the compiled rules by which flows are judged. It is compiled when rules arrive, frozen, and swapped whole.
// Control points whose rules did not change keep their compiled form, so an edit compiles only what it touches.

import { type Classifier, compileClassifier } from "../classify/classifier.ts";
import type { Component } from "../flow.ts";
import { EMPTY_SCHEMA, type LabelSchema, LabelSlots, type Labels } from "../label.ts";
import {
  holdsSlots,
  type Limiter,
  type SettlingLimiter,
  type SlotLimiter,
  settles,
} from "../limit/limiter.ts";
import type { LimiterRule, Rule, SelectorRule } from "../rules.ts";
import type { Stage } from "../stages.ts";
import type { KindTable, LimiterState } from "./kinds.ts";
import { type Candidate, candidates, namedServices, type Selected, select } from "./selection.ts";
import { compileShedding, NO_SHED_PLAN, type ShedLimiter, type ShedPlan } from "./shed-plan.ts";

/** One stage with its limiters, in component order. */
export interface Step {
  readonly stage: Stage;
  readonly limiters: readonly Candidate<Limiter>[];
}

/** Everything that applies to flows at one control point that belong to the same services. */
export interface ServicePlan {
  readonly classifiers: readonly Candidate<Classifier>[];
  readonly meters: readonly Candidate<string>[];
  /** In the order of stages, without those that have nothing to do. */
  readonly steps: readonly Step[];
  /** The limiters whose slots a flow holds until it ends. */
  readonly slotLimiters: ReadonlyMap<Component, SlotLimiter>;
  /** The limiters that settle their estimates when a flow ends. */
  readonly settlingLimiters: ReadonlyMap<Component, SettlingLimiter>;
  /** Answers to flows that the agent has no time to judge. */
  readonly shedding: ShedPlan;
}

export interface ControlPointPlan {
  readonly labels: LabelSchema;
  /** The rules from which it was compiled. Equal lists mean equal plans. */
  readonly rules: readonly Rule[];
  /** The limiters of all stages, in component order. */
  readonly limiters: readonly Limiter[];
  forServices(services: readonly string[]): ServicePlan;
}

export interface Plan {
  controlPoint(name: string): ControlPointPlan;
  readonly controlPoints: ReadonlyMap<string, ControlPointPlan>;
}

/** A limiter and the state to which it is bound. */
interface BoundMember {
  readonly limiter: Limiter;
  readonly state: LimiterState;
}

/** Binds a limiter rule to its state for one control point. */
export type Bind = (rule: LimiterRule, slots: LabelSlots) => BoundMember;

/** Compiles rules that are `inOrder` for the agents of one group, in steps. Throws a Fault when one does not compile. */
export function* compilePlan(
  rules: readonly Rule[],
  group: string,
  kinds: KindTable,
  bind: Bind,
  previous?: Plan,
): Generator<void, Plan> {
  const byControlPoint = new Map<string, Rule[]>();
  for (const rule of rules) {
    for (const name of controlPointNames(rule, group)) {
      const here = byControlPoint.get(name);
      if (here === undefined) byControlPoint.set(name, [rule]);
      else here.push(rule);
    }
  }
  const controlPoints = new Map<string, ControlPointPlan>();
  for (const [name, here] of byControlPoint) {
    yield;
    const old = previous?.controlPoints.get(name);
    const same = old !== undefined && sameRules(old.rules, here);
    controlPoints.set(name, same ? old : compileControlPoint(name, here, group, kinds, bind));
  }
  const none = emptyControlPoint(kinds);
  return Object.freeze({
    controlPoint: (name: string) => controlPoints.get(name) ?? none,
    controlPoints,
  });
}

function emptyControlPoint({ stages }: KindTable): ControlPointPlan {
  const steps = stepsOf(stages, [], new Set());
  const none: ServicePlan = {
    classifiers: [],
    meters: [],
    steps,
    slotLimiters: NO_LIMITERS,
    settlingLimiters: NO_LIMITERS,
    shedding: NO_SHED_PLAN,
  };
  return Object.freeze({ labels: EMPTY_SCHEMA, rules: [], limiters: [], forServices: () => none });
}

interface SelectedLimiter extends Selected<Limiter> {
  readonly stage: Stage;
}

function compileControlPoint(
  name: string,
  rules: readonly Rule[],
  group: string,
  { stages, rows }: KindTable,
  bind: Bind,
): ControlPointPlan {
  const slots = new LabelSlots(labelsMadeBy(rules));
  const selected = <T>(item: T, { selectors }: Rule): Selected<T> => {
    const ours = selectors.filter((selector) => isOurs(selector, name, group));
    return select(item, ours, slots);
  };
  const classifiers: Selected<Classifier>[] = [];
  const meters: Selected<string>[] = [];
  const limiters: SelectedLimiter[] = [];
  const shed: ShedLimiter[] = [];
  for (const rule of rules) {
    if (rule.kind === "classifier") {
      classifiers.push(selected(compileClassifier(rule, slots), rule));
    } else if (rule.kind === "flux_meter") meters.push(selected(rule.name, rule));
    else {
      const { limiter, state } = bind(rule, slots);
      const { stage } = rows[limiter.component.kind];
      limiters.push({ ...selected(limiter, rule), stage, exempts: exemption(rule, state, slots) });
      const here = rule.selectors.filter((selector) => isOurs(selector, name, group));
      shed.push({ rule, selectors: here, limiter, state, stage });
    }
  }
  const sheddingFor = compileShedding(shed, stages, slots);
  const planFor = (services: ReadonlySet<string>): ServicePlan => {
    const steps = stepsOf(stages, limiters, services);
    return Object.freeze({
      classifiers: candidates(classifiers, services),
      meters: candidates(meters, services),
      steps,
      slotLimiters: limitersOf(steps, holdsSlots),
      settlingLimiters: limitersOf(steps, settles),
      shedding: sheddingFor(services),
    });
  };
  const named = namedServices([...classifiers, ...meters, ...limiters]);
  return Object.freeze({
    labels: slots.schema,
    rules,
    limiters: limiters.map(({ item }) => item),
    forServices: byServices(named, planFor),
  });
}

/** True if the numbers of a limiter let a flow pass. Those of a sampler depend on the session label. */
function exemption(
  rule: LimiterRule,
  state: LimiterState,
  slots: LabelSlots,
): ((labels: Labels) => boolean) | undefined {
  if (state.passes === undefined) return undefined;
  const key = "sessionLabelKey" in rule ? rule.sessionLabelKey : "";
  const slot = key === "" ? -1 : slots.of(key);
  return (labels) => state.passes?.(slot < 0 ? undefined : labels.get(slot)) === true;
}

/** The labels of all classifiers, whatever their selectors, because clients may know how to avoid a selector. */
function labelsMadeBy(rules: readonly Rule[]): ReadonlySet<string> {
  const made = new Set<string>();
  for (const rule of rules) {
    if (rule.kind !== "classifier") continue;
    for (const { label } of rule.rules) made.add(label);
    for (const label of rule.rego ?? []) made.add(label);
  }
  return made.size === 0 ? EMPTY_SCHEMA.classified : made;
}

const NO_LIMITERS: ReadonlyMap<Component, never> = new Map<Component, never>();

/** A step for each stage that has limiters, or that refuses flows because it has none. */
function stepsOf(
  stages: readonly Stage[],
  all: readonly SelectedLimiter[],
  services: ReadonlySet<string>,
): readonly Step[] {
  const steps = stages.flatMap((stage) => {
    const own = all.filter((one) => one.stage === stage);
    const limiters = candidates(own, services);
    if (limiters.length === 0 && !stage.rampModeNeedsLimiter) return [];
    return [Object.freeze({ stage, limiters })];
  });
  return steps.slice();
}

/** The limiters of some kind, by their components. */
function limitersOf<L extends Limiter>(
  steps: readonly Step[],
  isOne: (limiter: Limiter) => limiter is L,
): ReadonlyMap<Component, L> {
  const limiters = steps.flatMap((step) => step.limiters.map(({ item }) => item));
  const found = limiters.filter(isOne);
  if (found.length === 0) return NO_LIMITERS;
  return new Map(found.map((limiter) => [limiter.component, limiter]));
}

/** Plans that are kept for flows of several known services, which are rare. */
const MAX_COMBINATIONS = 256;

/** A plan for each service that rules name. Combinations of services get theirs with their first flow. */
function byServices(
  named: ReadonlySet<string>,
  planFor: (services: ReadonlySet<string>) => ServicePlan,
): ControlPointPlan["forServices"] {
  const any = planFor(new Set());
  if (named.size === 0) return always(any);
  const plans = new Map([...named].map((service) => [service, planFor(new Set([service]))]));
  const maxPlans = plans.size + MAX_COMBINATIONS;
  return (services) => {
    const known = services.filter((service) => named.has(service));
    if (known.length === 0) return any;
    const name = known.join("\n");
    const found = plans.get(name);
    if (found !== undefined) return found;
    const plan = planFor(new Set(known));
    if (plans.size < maxPlans) plans.set(name, plan);
    return plan;
  };
}

/** A function of its own, so that the closure keeps nothing alive but the plan. */
function always(plan: ServicePlan): ControlPointPlan["forServices"] {
  return () => plan;
}

function isOurs(selector: SelectorRule, controlPoint: string, group: string): boolean {
  return selector.controlPoint === controlPoint && selector.agentGroup === group;
}

function controlPointNames(rule: Rule, group: string): ReadonlySet<string> {
  const ours = rule.selectors.filter(({ agentGroup }) => agentGroup === group);
  return new Set(ours.map(({ controlPoint }) => controlPoint));
}

function sameRules(a: readonly Rule[], b: readonly Rule[]): boolean {
  return a.length === b.length && a.every((rule, at) => rule === b[at]);
}
