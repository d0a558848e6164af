// Validates parts of a rule and returns one message for each fault. Policies are validated with these functions before
// anything is compiled, and compiling a rule relies on the same conditions.

import { Fault } from "#base/fault.ts";
import { compileExtractor } from "./classify/extract.ts";
import { labelNameFaults } from "./classify/name.ts";
import { compileRegex } from "./match/regex.ts";
import type { ExpressionRule, LabelRule, MatcherRule } from "./rules.ts";

const OPERATORS: ReadonlySet<string> = new Set(["In", "NotIn", "Exists", "DoesNotExist"]);

/** Every fault of a label matcher; empty when it compiles. */
export function matcherFaults(rule: MatcherRule): string[] {
  const faults: string[] = [];
  for (const { key, operator } of rule.list) {
    if (!OPERATORS.has(operator)) faults.push(unknownOperator(key, operator));
  }
  if (rule.expression !== undefined) addExpressionFaults(rule.expression, faults);
  return faults;
}

/** Message for a requirement whose operator does not exist. */
export function unknownOperator(key: string, operator: string): string {
  return `operator for label "${key}" must be In, NotIn, Exists or DoesNotExist, got "${operator}"`;
}

/** Every fault of the rule that extracts one label; empty when it compiles. */
export function labelRuleFaults(rule: LabelRule): string[] {
  const faults = labelNameFaults(rule.label);
  try {
    compileExtractor(rule.extractor);
  } catch (thrown) {
    faults.push(`label "${rule.label}": ${Fault.from(thrown).message}`);
  }
  return faults;
}

function addExpressionFaults(rule: ExpressionRule, faults: string[]): void {
  switch (rule.kind) {
    case "not":
      addExpressionFaults(rule.of, faults);
      return;
    case "all":
    case "any":
      for (const part of rule.of) addExpressionFaults(part, faults);
      return;
    case "label_matches":
      try {
        compileRegex(rule.regex);
      } catch (thrown) {
        faults.push(Fault.from(thrown).message);
      }
      return;
    case "label_exists":
    case "label_equals":
      return;
  }
}
