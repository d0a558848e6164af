// Answers to checks that are shed, compiled with the plan: whether a rule refuses the flow, and how important the flow is.
// Neither needs classifiers or regular expressions, for which an overloaded agent has no time.

import { standInOf } from "#base/failure-mode.ts";
import { unanswered } from "../check/decision.ts";
import { type Component, type Decision, type Flow, Missing, type RejectReason } from "../flow.ts";
import { type LabelSlots, type Labels, labelNumber } from "../label.ts";
import { type DrawingLimiter, drawsLots, type Limiter } from "../limit/limiter.ts";
import { compileMatcher } from "../match/matcher.ts";
import {
  type ExpressionRule,
  type LimiterRule,
  type MatcherRule,
  type SchedulerRule,
  type SelectorRule,
  usualFailureMode,
} from "../rules.ts";
import { RAMP_STAGE, type Stage } from "../stages.ts";
import type { LimiterState } from "./kinds.ts";
import { applies, type Candidate, candidates, type Selected } from "./selection.ts";

/** The priority of flows that no scheduler prioritises, as far as can be told cheaply. */
const DEFAULT_PRIORITY = 1;

/** The refusal of a flow that is shed. */
interface ShedRefusal {
  /** Undefined for a flow in ramp mode for which there is no ramp. */
  readonly decision: Decision | undefined;
  readonly reason: RejectReason;
  readonly deniedStatus: number;
}

/** A rule that may refuse flows that are shed. Each refusal is undefined where the flow passes. */
interface ShedRule {
  /** Slot of the key label; -1 without one, and for a label that classifiers make. */
  readonly keySlot: number;
  /** The policy says what happens to a flow without that label. */
  readonly needsKey: boolean;
  readonly withoutKey: ShedRefusal | undefined;
  /** By the failure mode. */
  readonly undecided: ShedRefusal | undefined;
  /** For a caller that takes more than its fair share. Undefined for samplers, which enforce no limit. */
  readonly ofCostly: ShedRefusal | undefined;
  readonly state: LimiterState;
  /** It is a ramp whose selectors need no classifiers. */
  readonly isRamp: boolean;
  /** A ramp that draws among flows that are shed as among all others, because a draw is cheap. */
  readonly draws: DrawingLimiter | undefined;
}

const NO_RAMP: ShedRefusal = Object.freeze({
  decision: undefined,
  reason: RAMP_STAGE.reason,
  deniedStatus: RAMP_STAGE.deniedStatus,
});

type PriorityOf = (labels: Labels) => number;

/** The part of a service's plan that sheds. */
export interface ShedPlan {
  /** In the order of stages. */
  readonly rules: readonly Candidate<ShedRule>[];
  readonly priorities: readonly Candidate<PriorityOf>[];
  /** Slots of key labels. */
  readonly keys: readonly Candidate<number>[];
}

/** A limiter rule at one control point. */
export interface ShedLimiter {
  readonly rule: LimiterRule;
  /** The selectors for this control point. */
  readonly selectors: readonly SelectorRule[];
  readonly limiter: Limiter;
  readonly state: LimiterState;
  readonly stage: Stage;
}

export const NO_SHED_PLAN: ShedPlan = Object.freeze({ rules: [], priorities: [], keys: [] });

/**
 * The refusal by the first rule that applies and refuses the flow; undefined for a flow that passes. `costly`: the caller
 * takes more than its fair share of the agent's time.
 */
export function refusalOf(
  { rules }: ShedPlan,
  flow: Flow,
  labels: Labels,
  costly: boolean,
): ShedRefusal | undefined {
  let isRamped = false;
  for (const candidate of rules) {
    const rule = candidate.item;
    const refusal = rule.draws === undefined ? refusalBy(rule, labels, costly) : undefined;
    if ((refusal === undefined && !rule.isRamp) || !applies(candidate, labels)) continue;
    const refused = refusal ?? refusalByDraw(rule, labels);
    if (refused !== undefined) return refused;
    isRamped = true;
  }
  // Without a matching ramp, a feature in ramp mode stays off.
  return flow.rampMode && !isRamped ? NO_RAMP : undefined;
}

function refusalByDraw({ draws }: ShedRule, labels: Labels): ShedRefusal | undefined {
  const decision = draws?.draw(labels);
  if (draws === undefined || decision?.dropped !== true) return undefined;
  const deniedStatus = draws.component.deniedStatus || RAMP_STAGE.deniedStatus;
  return { decision, reason: RAMP_STAGE.reason, deniedStatus };
}

/** Answers as a limiter without numbers: first by `on_missing_label`, then by the exemptions of its numbers. */
function refusalBy(rule: ShedRule, labels: Labels, costly: boolean): ShedRefusal | undefined {
  const { keySlot, needsKey, state } = rule;
  const undecided = costly ? (rule.ofCostly ?? rule.undecided) : rule.undecided;
  const value = keySlot < 0 ? undefined : labels.get(keySlot);
  if (needsKey && value === undefined) return rule.withoutKey;
  return undecided === undefined || state.passes?.(value) === true ? undefined : undecided;
}

/** The first key that a limiter has for the flow; undefined without any. */
export function keyOf({ keys }: ShedPlan, labels: Labels): string | undefined {
  for (const candidate of keys) {
    const value = labels.get(candidate.item);
    if (value !== undefined && applies(candidate, labels)) return value;
  }
  return undefined;
}

/** The highest priority that a scheduler gives the flow. */
export function priorityOf({ priorities }: ShedPlan, labels: Labels): number {
  let highest = 0;
  for (const candidate of priorities) {
    if (applies(candidate, labels)) highest = Math.max(highest, candidate.item(labels));
  }
  return highest > 0 ? highest : DEFAULT_PRIORITY;
}

/** Compiles the limiters of one control point. Returns a function that makes the plan for services. */
export function compileShedding(
  limiters: readonly ShedLimiter[],
  stages: readonly Stage[],
  slots: LabelSlots,
): (services: ReadonlySet<string>) => ShedPlan {
  const { classified } = slots;
  const refusing: Selected<ShedRule>[] = [];
  const priorities: Selected<PriorityOf>[] = [];
  const keys: Selected<number>[] = [];
  for (const stage of stages) {
    for (const one of limiters) {
      if (one.stage !== stage) continue;
      const item = compileRule(one, stage, classified, slots);
      if (item.keySlot >= 0) {
        keys.push({ item: item.keySlot, selectors: supposed(one.selectors, classified, slots) });
      }
      const refuses = (item.undecided ?? item.withoutKey ?? item.ofCostly) !== undefined;
      if (refuses || item.isRamp) {
        refusing.push({ item, selectors: supposed(one.selectors, classified, slots) });
      }
      if ("scheduler" in one.rule) {
        const item = compilePriority(one.rule.scheduler, classified, slots);
        priorities.push({ item, selectors: certain(one.selectors, classified, slots) });
      }
    }
  }
  if (refusing.length === 0 && priorities.length === 0 && keys.length === 0)
    return () => NO_SHED_PLAN;
  return (services) =>
    Object.freeze({
      rules: candidates(refusing, services),
      priorities: candidates(priorities, services),
      keys: candidates(keys, services),
    });
}

function compileRule(
  { rule, selectors, limiter, state }: ShedLimiter,
  stage: Stage,
  classified: ReadonlySet<string>,
  slots: LabelSlots,
): ShedRule {
  const { component } = limiter;
  const key = keyLabelOf(rule);
  // A label that classifiers make is not known without them, so the failure mode answers.
  const known = key !== "" && !classified.has(key);
  const needsKey = known && rule.onMissingLabel !== "default_key";
  const refusal = (decision: Partial<Decision>): ShedRefusal => ({
    decision: Object.freeze({ ...unanswered(component), ...decision }),
    reason: stage.reason,
    deniedStatus: component.deniedStatus || stage.deniedStatus,
  });
  const byClosed = refusal({ failure: "closed" });
  const isRamp =
    stage === RAMP_STAGE &&
    (known || key === "") &&
    selectors.every(({ matcher }) => isCheap(matcher, classified));
  const asUsual = component.onFailure === "local" || component.onFailure === "last_known";
  const refusesKeyless = needsKey && rule.onMissingLabel === "refuse";
  return {
    keySlot: known ? slots.of(key) : -1,
    needsKey,
    withoutKey: refusesKeyless ? refusal({ outcome: "refused", missing: Missing.key }) : undefined,
    undecided: failsClosed(component) ? byClosed : undefined,
    ofCostly: drawsSessions(rule) ? undefined : byClosed,
    state,
    isRamp,
    draws: isRamp && asUsual && drawsLots(limiter) ? limiter : undefined,
  };
}

/** The label that tells the flows of a limiter apart; "" without one. */
function keyLabelOf(rule: LimiterRule): string {
  if ("limitByLabelKey" in rule) return rule.limitByLabelKey;
  return drawsSessions(rule) ? rule.sessionLabelKey : "";
}

/** Samplers have no limit that costly checks could get past. */
function drawsSessions(
  rule: LimiterRule,
): rule is LimiterRule & { readonly sessionLabelKey: string } {
  return "sessionLabelKey" in rule;
}

/** Without numbers, `local` and `last_known` mean the usual mode of the kind. */
function failsClosed({ kind, onFailure }: Component): boolean {
  const usual = usualFailureMode(kind) === "closed" ? "closed" : "open";
  return standInOf(onFailure, usual, false) === "closed";
}

/** A rule whose selector costs too much counts as applying, because an overload must not disable it. */
function supposed(
  selectors: readonly SelectorRule[],
  classified: ReadonlySet<string>,
  slots: LabelSlots,
) {
  return selectors.map(({ service, matcher }) => ({
    service,
    matches: isCheap(matcher, classified) ? compileMatcher(matcher, slots) : undefined,
  }));
}

/** A scheduler whose selector costs too much is left out. */
function certain(
  selectors: readonly SelectorRule[],
  classified: ReadonlySet<string>,
  slots: LabelSlots,
) {
  return selectors
    .filter(({ matcher }) => isCheap(matcher, classified))
    .map(({ service, matcher }) => ({ service, matches: compileMatcher(matcher, slots) }));
}

/** Flows whose workload costs too much to find have the default priority. */
function compilePriority(
  { workloads, defaultParameters, priorityLabelKey }: SchedulerRule,
  classified: ReadonlySet<string>,
  slots: LabelSlots,
): PriorityOf {
  const byDefault = defaultParameters.priority;
  if (classified.has(priorityLabelKey)) return () => byDefault;
  const slot = priorityLabelKey === "" ? -1 : slots.of(priorityLabelKey);
  const unclear = workloads.findIndex(({ matcher }) => !isCheap(matcher, classified));
  const clear = workloads.slice(0, unclear < 0 ? undefined : unclear);
  const compiled = clear.map(({ matcher, parameters }) => ({
    matches: compileMatcher(matcher, slots),
    priority: parameters.priority,
  }));
  return (labels) => {
    const text = slot < 0 ? undefined : labels.get(slot);
    const stated = text === undefined ? 0 : (labelNumber(text) ?? 0);
    if (stated > 0) return stated;
    for (const { matches, priority } of compiled) {
      if (matches === undefined || matches(labels)) return priority;
    }
    return byDefault;
  };
}

/** True if a matcher only compares labels with which flows arrive, so that it needs no classifier. */
function isCheap(
  { labels, list, expression }: MatcherRule,
  classified: ReadonlySet<string>,
): boolean {
  const keys = [...Object.keys(labels), ...list.map(({ key }) => key)];
  if (keys.some((key) => classified.has(key))) return false;
  return expression === undefined || isCheapExpression(expression, classified);
}

function isCheapExpression(rule: ExpressionRule, classified: ReadonlySet<string>): boolean {
  switch (rule.kind) {
    case "not":
      return isCheapExpression(rule.of, classified);
    case "all":
    case "any":
      return rule.of.every((part) => isCheapExpression(part, classified));
    case "label_exists":
    case "label_equals":
      return !classified.has(rule.label);
    case "label_matches":
      return false;
  }
}
