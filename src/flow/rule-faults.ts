// Validates parts of a rule and returns a message for each fault. Policies are validated by these functions before they are
// compiled, and the compilation of a rule relies on the same conditions.

import { Fault } from "#base/fault.ts";
import { compileExtractor } from "./classify/extract.ts";
import { labelNameFaults } from "./classify/name.ts";
import { compileRegex, type Regex } from "./match/regex.ts";
import type { LabelRule } from "./rules.ts";

/** The fault of a regular expression, or its cost and the longest value that it tests. */
export type JudgedRegex = { readonly fault: string } | Pick<Regex, "cost" | "longest">;

export function judgeRegex(regex: string): JudgedRegex {
  try {
    return compileRegex(regex);
  } catch (thrown) {
    return { fault: Fault.from(thrown).message };
  }
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
