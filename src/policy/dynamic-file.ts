// Files of dynamic configuration: which policy a file is for, and what its text contains.

import type { Report } from "./document/finding.ts";
import { parse } from "./document/read.ts";
import { kindOf, type Position, type Tree } from "./document/tree.ts";

const DYNAMIC_FILE = /\.dynamic\.(?:ya?ml|json)$/;

const START: Position = { line: 1, column: 1 };

/** The policy for which a file has dynamic configuration: `v` for `v.dynamic.yaml`; undefined for other files. */
export function policyOfDynamicFile(file: string): string | undefined {
  return DYNAMIC_FILE.test(file) ? file.replace(DYNAMIC_FILE, "") : undefined;
}

/**
 * The object in the text of a file; an empty text is an empty object. Undefined when the text has faults, which go
 * to the report.
 */
export function readDynamicFile(text: string, report: Report): Tree | undefined {
  const before = report.faults;
  const [tree, ...more] = parse(text, report);
  const [second] = more;
  if (second !== undefined) report.refuse(second.at, [], "one document", "several");
  else if (tree !== undefined && tree.kind !== "map") {
    report.refuse(tree.at, [], "an object at the top level", kindOf(tree));
  }
  if (report.faults > before) return undefined;
  return tree ?? { kind: "map", at: START, entries: [] };
}
