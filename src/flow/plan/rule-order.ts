// The order in which rules are compiled and their decisions reported.

import type { Rule } from "../rules.ts";

/** Compares policies by name, and components of a policy by place in its circuit (`root.2` before `root.10`). */
export function compareRules(a: Rule, b: Rule): number {
  return compareText(a.policyName, b.policyName) || compareText(place(a), place(b));
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function place(rule: Rule): string {
  if (rule.kind === "flux_meter") return rule.name;
  const id = rule.kind === "classifier" ? `${rule.index}` : rule.componentId;
  return id.replace(/\d+/g, (digits) => digits.padStart(9, "0"));
}
