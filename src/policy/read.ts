// Text to trees: YAML 1.2 or JSON (which is YAML), one or several documents, each a bare policy or a
// Kubernetes object around one. Nothing is judged here but the form of the file and its wrappers.

import { type Document, isScalar, LineCounter, parseAllDocuments } from "yaml";
import { type Finding, type Notice, Report } from "./finding.ts";
import { Grower } from "./read/grower.ts";
import { type PolicyDocument, unwrap } from "./read/wrappers.ts";
import type { Position, Tree } from "./tree.ts";

export interface Reading {
  readonly documents: readonly PolicyDocument[];
  readonly findings: readonly Finding[];
  readonly warnings: readonly Notice[];
}

/** Of one document that is not YAML: later errors mostly follow from the first. */
const MOST_ERRORS = 5;

const START: Position = { line: 1, column: 1 };

/** `stem` names bare policies: the file's name without its extension. */
export function readPolicies(text: string, stem: string, report = new Report()): Reading {
  const documents: PolicyDocument[] = [];
  const before = report.faults;
  const roots = parse(text, report);
  for (const root of roots) unwrap(root, stem, documents, report);
  if (roots.length === 0 && report.faults === before) {
    report.refuse(START, [], "a policy", "no document");
  }
  return { documents, findings: report.findings, warnings: report.warnings };
}

/** One tree for each document of the text that is well formed; what is not, is told to the report. */
export function parse(text: string, report: Report): Tree[] {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text, {
    lineCounter: lines,
    version: "1.2",
    schema: "core",
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent",
    strict: true,
  });
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const grower = new Grower(at, report);
  const roots: Tree[] = [];
  for (const document of parsed) {
    const before = report.faults;
    const problems = [...document.errors, ...document.warnings].slice(0, MOST_ERRORS);
    // Of several at one place the first says what is wrong, and the others what follows from it.
    const first = new Map(problems.toReversed().map((problem) => [problem.pos[0], problem]));
    for (const [offset, { message }] of [...first].reverse()) {
      report.refuse(at(offset), [], "well-formed YAML", message);
    }
    const { yaml } = document.directives;
    if (yaml.explicit && yaml.version !== "1.2") {
      report.refuse(START, [], "YAML 1.2", `a %YAML ${yaml.version} directive`);
    }
    if (report.faults > before || isEmpty(document)) continue;
    const root = grower.root(document.contents);
    if (report.faults === before) roots.push(root);
    if (grower.spent) break;
  }
  return roots;
}

/** The nothing after a closing `---`. */
function isEmpty(document: Document.Parsed): boolean {
  const { contents } = document;
  return contents === null || (isScalar(contents) && contents.value === null);
}
