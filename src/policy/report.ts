// What this room says to people: faults and notices as lines.

import type { Finding, Notice } from "./finding.ts";
import type { PolicySet, Sourced } from "./set.ts";
import type { Position } from "./tree.ts";

/** `file:line:column: path: wanted …, got …`. */
export function findingLine({ source, of }: Sourced<Finding>): string {
  return shown(`${place(source, of.at, of.path)}: wanted ${of.wanted}, got ${of.got}`);
}

/** `file:line:column: path: text`. */
export function noticeLine({ source, of }: Sourced<Notice>): string {
  return shown(`${place(source, of.at, of.path)}: ${of.text}`);
}

/** One line of text: what a terminal would obey, or not show, is written as its code. */
function shown(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function place(source: string, { line, column }: Position, path: string): string {
  return `${source}:${line}:${column}${path === "" ? "" : `: ${path}`}`;
}

/** A whole set as lines: faults first, then what a person should know, then what was found good. */
export function setLines(set: PolicySet): string[] {
  return [
    ...set.findings.map(findingLine),
    ...set.warnings.map((warning) => `${noticeLine(warning)} (warning)`),
    ...set.policies.map(({ source, of: { name, hash, circuit, configs } }) => {
      const components = `${circuit?.leaves.length ?? 0} components in the circuit`;
      return shown(
        `${source}: policy ${name} (${hash}): ${components}, ${configs.length} for agents`,
      );
    }),
  ];
}
