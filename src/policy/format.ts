// Findings, warnings and results of a set of policies as lines of text.

import { printable } from "#base/text/printable.ts";
import type { Finding } from "./document/finding.ts";
import type { Position } from "./document/tree.ts";
import type { PolicyWarning, Warning } from "./document/warning.ts";
import type { PolicySet, Sourced } from "./set.ts";

/** `file:line:column: path: wanted …, got …`. */
export function findingLine({ source, of }: Sourced<Finding>): string {
  return printable(`${place(source, of.at)}${inPath(of.path)}: wanted ${of.wanted}, got ${of.got}`);
}

/** `file:line:column: path: text`. */
export function warningLine({ source, of }: Sourced<Warning>): string {
  return printable(`${place(source, of.at)}${inPath(of.path)}: ${of.text}`);
}

/** `path: text: why`, for a warning about a policy that runs. */
export function runningWarningLine({ path, text, why = "" }: PolicyWarning): string {
  return printable([path, text, why].filter((part) => part !== "").join(": "));
}

function place(source: string, { line, column }: Position): string {
  return `${source}:${line}:${column}`;
}

function inPath(path: string): string {
  return path === "" ? "" : `: ${path}`;
}

/** A line of the report about a set, and what kind of line it is. */
export interface SetLine {
  readonly kind: "finding" | "warning" | "policy" | "summary";
  readonly text: string;
}

/** Findings first, then warnings, then one line for each valid policy, and a summary of it all. */
export function setLines(set: PolicySet): readonly SetLine[] {
  return [
    ...set.findings.map((finding) => ({ kind: "finding", text: findingLine(finding) }) as const),
    ...set.warnings.map((warning) => {
      return {
        kind: "warning",
        text: `${warningLine(warning)} (warning ${warning.of.code})`,
      } as const;
    }),
    ...set.policies.map(({ source, of: { name, hash, circuit, configs } }) => {
      const components = `${circuit?.leaves.length ?? 0} components in the circuit`;
      const text = `${source}: policy ${name} (${hash}): ${components}, ${configs.length} for agents`;
      return { kind: "policy", text: printable(text) } as const;
    }),
    { kind: "summary", text: summary(set) },
  ];
}

/** One sentence that says whether the set can run, and whether all of it would. */
function summary({ policies, findings, warnings }: PolicySet): string {
  const notRun = warnings.filter(({ of }) => of.code === "not_run").length;
  const others = warnings.length - notRun;
  const result =
    findings.length > 0
      ? `not valid: ${counted(findings.length, "fault")}`
      : `valid: ${counted(policies.length, "policy", "policies")}`;
  return [
    result,
    ...(notRun === 0 ? [] : [`agents of this version do not act on ${counted(notRun, "part")}`]),
    ...(others === 0 ? [] : [counted(others, notRun === 0 ? "warning" : "other warning")]),
  ].join("; ");
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
