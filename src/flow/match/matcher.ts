// Compiles label matchers, the conditions of selectors, to closures. Regular expressions are RE2 and unanchored. One that
// would do too much work leaves the match undefined, unless other conditions decide it.

import { Fault } from "#base/fault.ts";
import type { LabelSlots, Labels } from "../label.ts";
import { unknownOperator } from "../rule-faults.ts";
import type { ExpressionRule, MatcherRule, Requirement } from "../rules.ts";
import { compileRegex } from "./regex.ts";
import type { Match } from "./work.ts";

export type Matcher = (labels: Labels) => Match;

/** A compiled part, or its value if it is the same for every flow. */
type Part = boolean | Matcher;

/** The rule as a predicate; undefined when it matches every flow. Throws a Fault when a regex is not RE2. */
export function compileMatcher(rule: MatcherRule, slots: LabelSlots): Matcher | undefined {
  const parts: Part[] = Object.entries(rule.labels).map(([key, value]) =>
    equals(slots.of(key), value),
  );
  for (const requirement of rule.list) parts.push(compileRequirement(requirement, slots));
  if (rule.expression !== undefined) parts.push(compileExpression(rule.expression, slots));
  return matcherOf(all(parts));
}

/** Matches when any of the matchers does. Undefined stands for one that matches every flow. */
export function anyOf(matchers: readonly (Matcher | undefined)[]): Matcher | undefined {
  return matcherOf(any(matchers.map((matcher) => matcher ?? true)));
}

function matcherOf(part: Part): Matcher | undefined {
  if (part === true) return undefined;
  return part === false ? () => false : part;
}

function compileRequirement(rule: Requirement, slots: LabelSlots): Matcher {
  const slot = slots.of(rule.key);
  switch (rule.operator) {
    case "In":
      return oneOf(slot, rule.values);
    case "NotIn": {
      // The negation of In, so it is true for a flow that lacks the label.
      return negation(oneOf(slot, rule.values));
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
      return matches(rule.label, rule.regex, slots);
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

/** The rules of one control point share equal expressions, and their memos. */
function matches(label: string, text: string, slots: LabelSlots): Matcher {
  const slot = slots.of(label);
  const regex = slots.regexes.get(text) ?? compileRegex(text);
  slots.regexes.set(text, regex);
  return (labels) => {
    const value = labels.get(slot);
    return value === undefined ? false : regex.test(value, labels);
  };
}

function not(part: Part): Part {
  return typeof part === "boolean" ? !part : negation(part);
}

function negation(part: Matcher): Matcher {
  return (labels) => {
    const match = part(labels);
    return match === undefined ? undefined : !match;
  };
}

function all(parts: readonly Part[]): Part {
  return combine(parts, false);
}

function any(parts: readonly Part[]): Part {
  return combine(parts, true);
}

/** `decisive` if any part has this value; otherwise undefined if any part is undefined; otherwise the opposite. */
function combine(parts: readonly Part[], decisive: boolean): Part {
  const open = parts.filter((part) => typeof part !== "boolean");
  if (parts.includes(decisive)) return decisive;
  const [first, second] = open;
  if (first === undefined) return !decisive;
  if (second === undefined) return first;
  return (labels) => {
    let match: Match = !decisive;
    for (const part of open) {
      const one = part(labels);
      if (one === decisive) return decisive;
      if (one === undefined) match = undefined;
    }
    return match;
  };
}
