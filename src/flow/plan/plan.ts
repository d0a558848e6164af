// The frozen rules that flows are judged by: compiled once when rules arrive, swapped whole. Control points
// whose rules did not change keep their compiled form, so an edit costs only what it touches.

import { type Classifier, compileClassifier } from "../classify/classifier.ts";
import type { Component } from "../flow.ts";
import { EMPTY_SCHEMA, type LabelSchema, LabelSlots, type Labels } from "../label.ts";
import {
  holdsSlots,
  type Limiter,
  type Lookup,
  type SettlingLimiter,
  type Shadow,
  type SlotLimiter,
  type StageMember,
  settles,
} from "../limit/stage-member.ts";
import type { LimiterRule, Rule, SelectorRule } from "../rules.ts";
import type { Stage } from "../stages.ts";
import type { KindTable, LimiterState } from "./kinds.ts";
import { type Candidate, candidates, namedServices, type Selected, select } from "./selection.ts";
import { compileShedding, NO_SHED_PLAN, type ShedMember, type ShedPlan } from "./shed-plan.ts";

/** One stage with its members, in component order. Only the list of the stage's own kind has any. */
export interface Step {
  readonly stage: Stage;
  readonly limiters: readonly Candidate<Limiter>[];
  readonly lookups: readonly Candidate<Lookup>[];
  readonly shadows: readonly Candidate<Shadow>[];
}

/** Everything that applies to flows at one control point that belong to the same services. */
export interface ServicePlan {
  readonly classifiers: readonly Candidate<Classifier>[];
  readonly meters: readonly Candidate<string>[];
  /** The stages that have something to do, in order. */
  readonly steps: readonly Step[];
  /** The limiters whose slots a flow holds until it ends. */
  readonly slotLimiters: ReadonlyMap<Component, SlotLimiter>;
  /** The limiters that settle what flows cost when they end. */
  readonly settlingLimiters: ReadonlyMap<Component, SettlingLimiter>;
  /** Answers to flows that the agent has no time to judge. */
  readonly shedding: ShedPlan;
}

export interface ControlPointPlan {
  readonly labels: LabelSchema;
  /** The rules it was compiled from: equal lists mean an equal plan. */
  readonly rules: readonly Rule[];
  /** The members of all stages, in component order. */
  readonly members: readonly StageMember[];
  forServices(services: readonly string[]): ServicePlan;
}

export interface Plan {
  controlPoint(name: string): ControlPointPlan;
  readonly controlPoints: ReadonlyMap<string, ControlPointPlan>;
}

/** A limiter rule's member and the state that it is bound to. */
export interface BoundMember {
  readonly member: StageMember;
  readonly state: LimiterState;
}

/** Binds a limiter rule to its state for one control point. */
export type Bind = (rule: LimiterRule, slots: LabelSlots) => BoundMember;

/** Compiles rules, which are `inOrder`, for the agents of one group, in steps. Throws a Fault when one does not compile. */
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
  return Object.freeze({ labels: EMPTY_SCHEMA, rules: [], members: [], forServices: () => none });
}

interface StageSelection extends Selected<StageMember> {
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
  const members: StageSelection[] = [];
  const shed: ShedMember[] = [];
  for (const rule of rules) {
    if (rule.kind === "classifier") {
      classifiers.push(selected(compileClassifier(rule, slots), rule));
    } else if (rule.kind === "flux_meter") meters.push(selected(rule.name, rule));
    else {
      const { member, state } = bind(rule, slots);
      const { stage } = rows[member.component.kind];
      members.push({ ...selected(member, rule), stage, exempts: exemption(rule, state, slots) });
      const here = rule.selectors.filter((selector) => isOurs(selector, name, group));
      shed.push({ rule, selectors: here, member, state, stage });
    }
  }
  const sheddingFor = compileShedding(shed, stages, slots);
  const planFor = (services: ReadonlySet<string>): ServicePlan => {
    const steps = stepsOf(stages, members, services);
    return Object.freeze({
      classifiers: candidates(classifiers, services),
      meters: candidates(meters, services),
      steps,
      slotLimiters: limitersOf(steps, holdsSlots),
      settlingLimiters: limitersOf(steps, settles),
      shedding: sheddingFor(services),
    });
  };
  const named = namedServices([...classifiers, ...meters, ...members]);
  return Object.freeze({
    labels: slots.schema,
    rules,
    members: members.map(({ item }) => item),
    forServices: byServices(named, planFor),
  });
}

/** Passing is up to a sampler's numbers for some values of the label by which it tells sessions apart. */
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

/** The labels of all classifiers, whatever their selectors: a client may know how not to be selected by one. */
function labelsMadeBy(rules: readonly Rule[]): ReadonlySet<string> {
  const made = new Set<string>();
  for (const rule of rules) {
    if (rule.kind !== "classifier") continue;
    for (const { label } of rule.rules) made.add(label);
    for (const label of rule.rego ?? []) made.add(label);
  }
  return made.size === 0 ? EMPTY_SCHEMA.classified : made;
}

const NO_MEMBERS: readonly never[] = [];
const NO_LIMITERS: ReadonlyMap<Component, never> = new Map<Component, never>();

/** A step for each stage that has members, or that refuses flows because it has none. */
function stepsOf(
  stages: readonly Stage[],
  all: readonly StageSelection[],
  services: ReadonlySet<string>,
): readonly Step[] {
  const steps = stages.flatMap((stage) => {
    const own = all.filter((one) => one.stage === stage);
    const members = candidates(own, services);
    const needed = stage.kind === "limit" && stage.rampModeNeedsLimiter;
    return members.length > 0 || needed ? [stepOf(stage, members)] : [];
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

/** The row of a kind names a stage and binds a member for it, so both are of one kind. */
function stepOf(stage: Stage, members: readonly Candidate<StageMember>[]): Step {
  const of = <T extends StageMember>(kind: Stage["kind"]) =>
    stage.kind === kind ? (members as readonly Candidate<T>[]) : NO_MEMBERS;
  return Object.freeze({
    stage,
    limiters: of<Limiter>("limit"),
    lookups: of<Lookup>("lookup"),
    shadows: of<Shadow>("observe"),
  });
}

/** Flows of several known services are rare; the plans of this many combinations are kept. */
const MAX_COMBINATIONS = 256;

/** A plan for each service that rules name; combinations of services get theirs when a flow has them. */
function byServices(
  named: ReadonlySet<string>,
  planFor: (services: ReadonlySet<string>) => ServicePlan,
): ControlPointPlan["forServices"] {
  const any = planFor(new Set());
  if (named.size === 0) return always(any);
  const plans = new Map([...named].map((service) => [service, planFor(new Set([service]))]));
  const most = plans.size + MAX_COMBINATIONS;
  return (services) => {
    const known = services.filter((service) => named.has(service));
    if (known.length === 0) return any;
    const name = known.join("\n");
    const found = plans.get(name);
    if (found !== undefined) return found;
    const plan = planFor(new Set(known));
    if (plans.size < most) plans.set(name, plan);
    return plan;
  };
}

/** A function of its own, because it keeps nothing alive but the plan. */
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
