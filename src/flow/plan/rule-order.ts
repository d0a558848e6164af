// The order in which rules are compiled and their decisions reported.

import type { Rule } from "../rules.ts";

/** Sorts by policy name, then by the place of the component in its circuit (`root.2` before `root.10`). */
export function inOrder(rules: Iterable<Rule>): Rule[] {
  const placed = Array.from(rules, (rule) => ({ rule, place: place(rule) }));
  placed.sort(
    (a, b) => compareText(a.rule.policyName, b.rule.policyName) || compareText(a.place, b.place),
  );
  return placed.map(({ rule }) => rule);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function place(rule: Rule): string {
  if (rule.kind === "flux_meter") return rule.name;
  const id = rule.kind === "classifier" ? `${rule.index}` : rule.componentId;
  return id.replace(/\d+/g, (digits) => digits.padStart(9, "0"));
}
