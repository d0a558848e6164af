// Findings, warnings and results of a set of policies as lines of text.

import { printable } from "#base/text/printable.ts";
import type { Finding } from "./document/finding.ts";
import type { PolicyWarning, Warning } from "./document/warning.ts";
import type { CompiledSet } from "./set.ts";

/** `file:line:column: path: wanted …, got …`. */
export function findingLine(finding: Finding): string {
  return printable(`${placeOf(finding)}: wanted ${finding.wanted}, got ${finding.got}`);
}

/** `file:line:column: path: text`. */
export function warningLine(warning: Warning): string {
  return printable(`${placeOf(warning)}: ${warning.text}`);
}

/** `path: text: why`, for a warning about a policy that runs. */
export function runningWarningLine({ path, text, why = "" }: PolicyWarning): string {
  return printable([path, text, why].filter((part) => part !== "").join(": "));
}

function placeOf({ source, at, path }: Pick<Finding, "source" | "at" | "path">): string {
  return `${source}:${at.line}:${at.column}${path === "" ? "" : `: ${path}`}`;
}

/** A line of the report about a set, and what kind of line it is. */
export interface SetLine {
  readonly kind: "finding" | "warning" | "policy" | "summary";
  readonly text: string;
}

/** Findings first, then warnings, then one line for each valid policy, and a summary of it all. */
export function setLines(set: CompiledSet): readonly SetLine[] {
  return [
    ...set.findings.map((finding) => ({ kind: "finding", text: findingLine(finding) }) as const),
    ...set.warnings.map((warning) => {
      const text = `${warningLine(warning)} (warning ${warning.code})`;
      return { kind: "warning", text } as const;
    }),
    ...set.policies.map(({ source, name, hash, circuit, configs }) => {
      const components = `${circuit?.leaves.length ?? 0} components in the circuit`;
      const text = `${source}: policy ${name} (${hash}): ${components}, ${configs.length} for agents`;
      return { kind: "policy", text: printable(text) } as const;
    }),
    { kind: "summary", text: summary(set) },
  ];
}

/** One sentence that says whether the set can run, and whether all of it would. */
function summary({ policies, findings, warnings }: CompiledSet): string {
  const notRun = warnings.filter(({ code }) => code === "not_run").length;
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
