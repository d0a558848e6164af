// Label matchers: the conditions under which a selector applies to a flow, compiled to closures when a plan
// arrives. Regular expressions are RE2: unanchored, and matched in linear time.

import { Fault } from "#base/fault.ts";
import type { LabelSlots, Labels } from "../label.ts";
import { unknownOperator } from "../rule-faults.ts";
import type { ExpressionRule, MatcherRule, Requirement } from "../rules.ts";
import { compileRegex } from "./regex.ts";

export type Matcher = (labels: Labels) => boolean;

/** A compiled part, or its value where that is the same for every flow. */
type Part = boolean | Matcher;

/** The rule as a predicate over labels; undefined when it matches every flow. Throws a Fault when a regex is not RE2. */
export function compileMatcher(rule: MatcherRule, slots: LabelSlots): Matcher | undefined {
  const parts: Part[] = Object.entries(rule.labels).map(([key, value]) =>
    equals(slots.of(key), value),
  );
  for (const requirement of rule.list) parts.push(compileRequirement(requirement, slots));
  if (rule.expression !== undefined) parts.push(compileExpression(rule.expression, slots));
  const whole = all(parts);
  if (whole === true) return undefined;
  return whole === false ? () => false : whole;
}

function compileRequirement(rule: Requirement, slots: LabelSlots): Matcher {
  const slot = slots.of(rule.key);
  switch (rule.operator) {
    case "In":
      return oneOf(slot, rule.values);
    case "NotIn": {
      // The negation of In, so it is true for a flow that lacks the label.
      const within = oneOf(slot, rule.values);
      return (labels) => !within(labels);
    }
    case "Exists":
      return exists(slot);
    case "DoesNotExist":
      return (labels) => labels.get(slot) === undefined;
    default:
      throw new Fault("INVALID_ARGUMENT", unknownOperator(rule.key, rule.operator));
  }
}

function compileExpression(rule: ExpressionRule, slots: LabelSlots): Part {
  switch (rule.kind) {
    case "not":
      return not(compileExpression(rule.of, slots));
    case "all":
      return all(rule.of.map((part) => compileExpression(part, slots)));
    case "any":
      return any(rule.of.map((part) => compileExpression(part, slots)));
    case "label_exists":
      return exists(slots.of(rule.label));
    case "label_equals":
      return equals(slots.of(rule.label), rule.value);
    case "label_matches":
      return matches(slots.of(rule.label), rule.regex);
  }
}

function equals(slot: number, value: string): Matcher {
  return (labels) => labels.get(slot) === value;
}

function exists(slot: number): Matcher {
  return (labels) => labels.get(slot) !== undefined;
}

/** An empty list of values means the one empty value. */
function oneOf(slot: number, values: readonly string[]): Matcher {
  const [only = ""] = values;
  if (values.length <= 1) return equals(slot, only);
  const set = new Set(values);
  return (labels) => {
    const value = labels.get(slot);
    return value !== undefined && set.has(value);
  };
}

function matches(slot: number, regex: string): Matcher {
  const test = compileRegex(regex);
  return (labels) => {
    const value = labels.get(slot);
    return value !== undefined && test(value);
  };
}

function not(part: Part): Part {
  return typeof part === "boolean" ? !part : (labels) => !part(labels);
}

function all(parts: readonly Part[]): Part {
  const open = parts.filter((part) => typeof part !== "boolean");
  if (parts.includes(false)) return false;
  const [first, second] = open;
  if (first === undefined) return true;
  if (second === undefined) return first;
  if (open.length === 2) return (labels) => first(labels) && second(labels);
  return (labels) => {
    for (const part of open) if (!part(labels)) return false;
    return true;
  };
}

function any(parts: readonly Part[]): Part {
  const open = parts.filter((part) => typeof part !== "boolean");
  if (parts.includes(true)) return true;
  const [first, second] = open;
  if (first === undefined) return false;
  if (second === undefined) return first;
  if (open.length === 2) return (labels) => first(labels) || second(labels);
  return (labels) => {
    for (const part of open) if (part(labels)) return true;
    return false;
  };
}
