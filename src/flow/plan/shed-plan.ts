// Answers to checks that are shed, compiled with the plan: whether a rule that fails closed refuses the flow, and how
// important the flow is. Both are known without classifiers and regular expressions, which are what an overloaded agent
// has no time for.

import { standInOf } from "#base/failure-mode.ts";
import { unanswered } from "../check/decision.ts";
import type { Component, Decision, RejectReason } from "../flow.ts";
import { type LabelSlots, type Labels, labelNumber } from "../label.ts";
import type { Limiter, StageMember } from "../limit/stage-member.ts";
import { compileMatcher } from "../match/matcher.ts";
import {
  type ExpressionRule,
  type LimiterRule,
  type MatcherRule,
  type Rule,
  type SchedulerRule,
  type SelectorRule,
  usualFailureMode,
} from "../rules.ts";
import type { Stage } from "../stages.ts";
import { applies, type Candidate, candidates, type Selected } from "./selection.ts";

/** The priority of flows that no scheduler prioritises, as far as can be told cheaply. */
const DEFAULT_PRIORITY = 1;

/** A rule that refuses the flows that nobody judges. */
export interface ShedRefusal {
  readonly limiter: Limiter;
  readonly decision: Decision;
  readonly reason: RejectReason;
  readonly deniedStatus: number;
}

type PriorityOf = (labels: Labels) => number;

/** The part of a service's plan that sheds. */
export interface ShedPlan {
  /** In the order of stages. */
  readonly refusals: readonly Candidate<ShedRefusal>[];
  readonly priorities: readonly Candidate<PriorityOf>[];
}

/** A limiter rule with its member. */
export interface ShedMember {
  readonly rule: LimiterRule;
  /** Those of the control point. */
  readonly selectors: readonly SelectorRule[];
  readonly member: StageMember;
  readonly stage: Stage;
}

export const NO_SHED_PLAN: ShedPlan = Object.freeze({ refusals: [], priorities: [] });

/** The refusal of the first rule that fails closed and applies; undefined for a flow that passes. */
export function refusalOf({ refusals }: ShedPlan, labels: Labels): ShedRefusal | undefined {
  for (const candidate of refusals) {
    const { passesAll } = candidate.item.limiter;
    if (passesAll !== true && applies(candidate, labels)) return candidate.item;
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

/** Compiles the members of one control point. Returns a function that makes the plan for services. */
export function compileShedding(
  members: readonly ShedMember[],
  rules: readonly Rule[],
  stages: readonly Stage[],
  slots: LabelSlots,
): (services: ReadonlySet<string>) => ShedPlan {
  const made = new Set<string>();
  for (const rule of rules) {
    if (rule.kind === "classifier") for (const { label } of rule.rules) made.add(label);
  }
  const refusals: Selected<ShedRefusal>[] = [];
  const priorities: Selected<PriorityOf>[] = [];
  for (const stage of stages) {
    for (const one of members) {
      if (one.stage !== stage || stage.kind !== "limit") continue;
      const limiter = one.member as Limiter;
      if (failsClosed(limiter.component)) {
        const deniedStatus = limiter.component.deniedStatus || stage.deniedStatus;
        const item = {
          limiter,
          decision: Object.freeze({ ...unanswered(limiter.component), failure: "closed" as const }),
          reason: stage.reason,
          deniedStatus,
        };
        refusals.push({ item, selectors: supposed(one.selectors, made, slots) });
      }
      if ("scheduler" in one.rule) {
        const item = compilePriority(one.rule.scheduler, made, slots);
        priorities.push({ item, selectors: certain(one.selectors, made, slots) });
      }
    }
  }
  if (refusals.length === 0 && priorities.length === 0) return () => NO_SHED_PLAN;
  return (services) =>
    Object.freeze({
      refusals: candidates(refusals, services),
      priorities: candidates(priorities, services),
    });
}

/** Without numbers `local` and `last_known` are the usual mode of the kind, as they are while no decision has come. */
function failsClosed({ kind, onFailure }: Component): boolean {
  const usual = usualFailureMode(kind) === "closed" ? "closed" : "open";
  return standInOf(onFailure, usual, false) === "closed";
}

/** A rule whose selector costs too much is taken to apply: what fails closed must not pass because of an overload. */
function supposed(
  selectors: readonly SelectorRule[],
  made: ReadonlySet<string>,
  slots: LabelSlots,
) {
  return selectors.map(({ service, matcher }) => ({
    service,
    matches: isCheap(matcher, made) ? compileMatcher(matcher, slots) : undefined,
  }));
}

/** A scheduler whose selector costs too much says nothing about priorities. */
function certain(selectors: readonly SelectorRule[], made: ReadonlySet<string>, slots: LabelSlots) {
  return selectors
    .filter(({ matcher }) => isCheap(matcher, made))
    .map(({ service, matcher }) => ({ service, matches: compileMatcher(matcher, slots) }));
}

/** Flows whose workload cannot be told cheaply have the priority of those that belong to none. */
function compilePriority(
  { workloads, defaultParameters, priorityLabelKey }: SchedulerRule,
  made: ReadonlySet<string>,
  slots: LabelSlots,
): PriorityOf {
  const byDefault = defaultParameters.priority;
  if (made.has(priorityLabelKey)) return () => byDefault;
  const slot = priorityLabelKey === "" ? -1 : slots.of(priorityLabelKey);
  const unclear = workloads.findIndex(({ matcher }) => !isCheap(matcher, made));
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

/** Whether a matcher reads only labels that flows arrive with, and compares them: no classifier has to run for it. */
function isCheap({ labels, list, expression }: MatcherRule, made: ReadonlySet<string>): boolean {
  const keys = [...Object.keys(labels), ...list.map(({ key }) => key)];
  if (keys.some((key) => made.has(key))) return false;
  return expression === undefined || isCheapExpression(expression, made);
}

function isCheapExpression(rule: ExpressionRule, made: ReadonlySet<string>): boolean {
  switch (rule.kind) {
    case "not":
      return isCheapExpression(rule.of, made);
    case "all":
    case "any":
      return rule.of.every((part) => isCheapExpression(part, made));
    case "label_exists":
    case "label_equals":
      return !made.has(rule.label);
    case "label_matches":
      return false;
  }
}
