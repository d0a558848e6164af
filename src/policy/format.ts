// Findings, warnings and results of a set of policies as lines of text.

import type { Finding, Warning } from "./document/finding.ts";
import type { Position } from "./document/tree.ts";
import type { PolicySet, Sourced } from "./set.ts";

/** `file:line:column: path: wanted …, got …`. */
export function findingLine({ source, of }: Sourced<Finding>): string {
  return printable(`${place(source, of.at, of.path)}: wanted ${of.wanted}, got ${of.got}`);
}

/** `file:line:column: path: text`. */
export function warningLine({ source, of }: Sourced<Warning>): string {
  return printable(`${place(source, of.at, of.path)}: ${of.text}`);
}

/** Replaces control and invisible characters by their escapes, so that a line stays one harmless line. */
function printable(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function place(source: string, { line, column }: Position, path: string): string {
  return `${source}:${line}:${column}${path === "" ? "" : `: ${path}`}`;
}

/** Findings first, then warnings, then one line for each valid policy. */
export function setLines(set: PolicySet): string[] {
  return [
    ...set.findings.map(findingLine),
    ...set.warnings.map((warning) => `${warningLine(warning)} (warning)`),
    ...set.policies.map(({ source, of: { name, hash, circuit, configs } }) => {
      const components = `${circuit?.leaves.length ?? 0} components in the circuit`;
      return printable(
        `${source}: policy ${name} (${hash}): ${components}, ${configs.length} for agents`,
      );
    }),
  ];
}
