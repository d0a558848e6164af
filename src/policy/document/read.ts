// Reads a text as policy documents: YAML 1.2 or JSON (a subset of YAML), one or several documents, each a bare
// policy or a Kubernetes object around one. Checks only the syntax and the Kubernetes objects.

import { Composer, type CST, type Document, isScalar, LineCounter, Parser } from "yaml";
import { type Finding, Report } from "./finding.ts";
import { type Position, START, type Tree } from "./tree.ts";
import { deeperNesting, MAX_DEPTH, TreeBuilder } from "./tree-builder.ts";
import type { Warning } from "./warning.ts";
import { type PolicyDocument, unwrap } from "./wrappers.ts";

export interface ReadDocuments {
  readonly documents: readonly PolicyDocument[];
  readonly findings: readonly Finding[];
  readonly warnings: readonly Warning[];
}

/** Errors reported for a document that is not YAML: later ones mostly follow from the first. */
const MAX_ERRORS = 5;

/**
 * `defaultName` is the name of a policy that has none, unless it is one of a list: the file name without its extension.
 * `namespace` is the one in which resources have to be; undefined for any.
 */
export function readPolicies(
  text: string,
  defaultName: string,
  report = new Report(),
  namespace?: string,
): ReadDocuments {
  const documents: PolicyDocument[] = [];
  const before = report.faults;
  const roots = parse(text, report);
  for (const root of roots) unwrap(root, { defaultName, namespace }, documents, report);
  if (roots.length === 0 && report.faults === before) {
    report.refuse(START, [], "a policy", "no document");
  }
  return { documents, findings: report.findings, warnings: report.warnings };
}

/** One tree for each well-formed document of the text; syntax errors go to the report. */
export function parse(text: string, report: Report): Tree[] {
  const lines = new LineCounter();
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  // The composer calls itself for each level: it must not see more levels than the stack holds.
  const tooDeep = offsetTooDeep(tokens);
  if (tooDeep !== undefined) {
    deeperNesting(at(tooDeep), report);
    return [];
  }
  const composer = new Composer({
    lineCounter: lines,
    version: "1.2",
    schema: "core",
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent",
    strict: true,
  });
  const parsed = [...composer.compose(tokens)];
  const undecoded = text.search(UNDECODED);
  if (undecoded >= 0 && parsed.some(isNoPolicyText)) {
    report.refuse(at(undecoded), [], "UTF-8 text", "other bytes");
    return [];
  }
  const builder = new TreeBuilder(at, report);
  const roots: Tree[] = [];
  for (const document of parsed) {
    const before = report.faults;
    const problems = [...document.errors, ...document.warnings].slice(0, MAX_ERRORS);
    // Only the first of several errors at one position is reported, because the others follow from it.
    const first = new Map(problems.toReversed().map((problem) => [problem.pos[0], problem]));
    for (const [offset, { message }] of [...first].reverse()) {
      // The messages are rules of YAML.
      report.refuse(at(offset), [], "well-formed YAML", `a syntax error: ${message}`);
    }
    const { yaml } = document.directives;
    if (yaml.explicit && yaml.version !== "1.2") {
      report.refuse(START, [], "YAML 1.2", `a %YAML ${yaml.version} directive`);
    }
    if (report.faults > before || isEmpty(document)) continue;
    const root = builder.root(document.contents);
    if (report.faults === before) roots.push(root);
    if (builder.exhausted) break;
  }
  return roots;
}

/** Matches the replacement for bytes that are not UTF-8, and NUL, which no text contains. */
const UNDECODED = /[\uFFFD\0]/;

/** True for a document that cannot be parsed, and for one that is nothing but a text: binary files are one of them. */
function isNoPolicyText({ errors, contents }: Document.Parsed): boolean {
  return errors.length > 0 || (isScalar(contents) && typeof contents.value === "string");
}

/** Offset of the first token that is nested too deeply. Walks without recursion. */
function offsetTooDeep(tokens: readonly CST.Token[]): number | undefined {
  let level: readonly CST.Token[] = tokens.flatMap(partsOf);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return level[0]?.offset;
    level = level.flatMap(partsOf);
  }
  return undefined;
}

/** The value of a document, or the keys and values of a collection. */
function partsOf(token: CST.Token): readonly CST.Token[] {
  if (token.type === "document") return token.value === undefined ? [] : [token.value];
  if (!("items" in token)) return [];
  return token.items.flatMap(({ key, value }) => [key, value].filter((part) => part != null));
}

/** True for the empty document after a final `---`. */
function isEmpty(document: Document.Parsed): boolean {
  const { contents } = document;
  return contents === null || (isScalar(contents) && contents.value === null);
}
