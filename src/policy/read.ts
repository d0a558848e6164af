// Text to trees: YAML 1.2 or JSON (which is YAML), one or several documents, each a bare policy or a
// Kubernetes object around one. Nothing is judged here but the form of the file and its wrappers.

import type { Document, Node, ParsedNode, Scalar } from "yaml";
import { type Alias, isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments } from "yaml";
import { type Finding, finding, type Notice, type Report } from "./finding.ts";
import type { TreeEntry } from "./tree.ts";
import { describe, member, type Path, type Position, quote, type Tree } from "./tree.ts";

/** One policy as it was found, not judged yet. */
export interface PolicyDocument {
  readonly name: string;
  readonly at: Position;
  /** The policy itself, wrappers taken off. */
  readonly tree: Tree;
  /** Where `tree` stands in its document. */
  readonly path: Path;
  /** The whole document, for positions. */
  readonly root: Tree;
  /** Overrides by configuration key, from the wrapper. */
  readonly dynamicConfig: Tree | undefined;
}

export interface Reading {
  readonly documents: readonly PolicyDocument[];
  readonly findings: readonly Finding[];
  readonly warnings: readonly Notice[];
}

/** Far above any real policy; aliases count each time they are used, so they cannot multiply. */
const MOST_NODES = 200_000;
const DEEPEST = 200;

/** Of one document that is not YAML: later errors mostly follow from the first. */
const MOST_ERRORS = 5;

const START: Position = { line: 1, column: 1 };

/** `stem` names bare policies: the file's name without its extension. */
export function readPolicies(text: string, stem: string): Reading {
  const report: Report = { findings: [], warnings: [] };
  const documents: PolicyDocument[] = [];
  const roots = parse(text, report);
  for (const root of roots) unwrap(root, stem, documents, report);
  if (roots.length === 0 && report.findings.length === 0) {
    report.findings.push(finding(START, [], "a policy", "no document"));
  }
  return { documents, ...report };
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
  const roots: Tree[] = [];
  for (const document of parsed) {
    const before = report.findings.length;
    for (const problem of [...document.errors, ...document.warnings].slice(0, MOST_ERRORS)) {
      report.findings.push(finding(at(problem.pos[0]), [], "well-formed YAML", problem.message));
    }
    const { yaml } = document.directives;
    if (yaml.explicit && yaml.version !== "1.2") {
      report.findings.push(finding(START, [], "YAML 1.2", `a %YAML ${yaml.version} directive`));
    }
    if (report.findings.length > before || isEmpty(document)) continue;
    const root = new Grower(document, at, report).grow(document.contents, []);
    if (report.findings.length === before) roots.push(root);
  }
  return roots;
}

/** The nothing after a closing `---`. */
function isEmpty(document: Document.Parsed): boolean {
  const { contents } = document;
  return contents === null || (isScalar(contents) && contents.value === null);
}

/** Turns parsed nodes of one document into a tree, within bounds. */
class Grower {
  readonly #document: Document.Parsed;
  readonly #at: (offset: number) => Position;
  readonly #report: Report;
  #nodes = 0;

  constructor(document: Document.Parsed, at: (offset: number) => Position, report: Report) {
    this.#document = document;
    this.#at = at;
    this.#report = report;
  }

  grow(node: ParsedNode | Node | null, path: Path, depth = 0): Tree {
    const at = this.#at(node?.range?.[0] ?? 0);
    this.#nodes += 1;
    if (this.#nodes === MOST_NODES) {
      this.#report.findings.push(
        finding(at, path, `at most ${MOST_NODES} parts, aliases counted each time`, "more"),
      );
    }
    if (depth > DEEPEST) {
      this.#report.findings.push(finding(at, [], `at most ${DEEPEST} levels`, "deeper nesting"));
      this.#nodes = MOST_NODES;
    }
    if (node === null || this.#nodes >= MOST_NODES) return { kind: "null", at };
    if (isAlias(node)) return this.#alias(node, at, path, depth);
    if (isMap(node)) {
      return { kind: "map", at, entries: this.#entries(node.items, path, depth) };
    }
    if (isSeq(node)) {
      const items = node.items.map((item, index) =>
        this.grow(item as Node | null, [...path, index], depth + 1),
      );
      return { kind: "list", at, items };
    }
    return isScalar(node) ? this.#scalar(node, at, path) : { kind: "null", at };
  }

  #alias(node: Alias, at: Position, path: Path, depth: number): Tree {
    const target = node.resolve(this.#document);
    if (target !== undefined) return this.grow(target, path, depth + 1);
    this.#report.findings.push(
      finding(at, path, "an anchor that stands before it", `the alias ${quote(node.source)}`),
    );
    return { kind: "null", at };
  }

  #entries(
    pairs: readonly { readonly key: unknown; readonly value: unknown }[],
    path: Path,
    depth: number,
  ): TreeEntry[] {
    const entries: TreeEntry[] = [];
    const seen = new Map<string, Position>();
    for (const pair of pairs) {
      const node = pair.key as Node | null;
      const keyAt = this.#at(node?.range?.[0] ?? 0);
      const key = isScalar(node) ? keyText(node) : undefined;
      if (key === undefined) {
        this.#report.findings.push(finding(keyAt, path, "keys that are plain text", "another key"));
        continue;
      }
      const first = seen.get(key);
      if (first !== undefined) {
        this.#report.findings.push(
          finding(
            keyAt,
            [...path, key],
            "each key once",
            `the key again (first: line ${first.line})`,
          ),
        );
        continue;
      }
      seen.set(key, keyAt);
      const value = this.grow(pair.value as Node | null, [...path, key], depth + 1);
      // A missing value has no place of its own.
      entries.push({
        key,
        keyAt,
        value: pair.value === null ? { kind: "null", at: keyAt } : value,
      });
    }
    return entries;
  }

  #scalar(node: Scalar, at: Position, path: Path): Tree {
    const { value } = node;
    const source = node.source ?? String(value);
    if (typeof value === "boolean") return { kind: "boolean", at, value };
    if (typeof value === "number") {
      if (node.type !== "PLAIN" || !LEADING_ZERO.test(source)) {
        return { kind: "number", at, value, source };
      }
      const octal = Number.parseInt(source, 8);
      this.#report.warnings.push(notice(at, path, `${source} is read as octal, ${octal}`));
      return { kind: "number", at, value: octal, source: String(octal) };
    }
    if (typeof value !== "string") return { kind: "null", at };
    if (node.type === "PLAIN" && node.tag === undefined && GROUPED_DIGITS.test(value)) {
      const ungrouped = value.replaceAll("_", "");
      return { kind: "number", at, value: Number(ungrouped), source: ungrouped };
    }
    return { kind: "text", at, value };
  }
}

/** `017`: a number to every reader, but not the same one; the language takes it as octal. */
const LEADING_ZERO = /^[-+]?0[0-7]+$/;
/** `1_000`: text in YAML 1.2, a number in this language. */
const GROUPED_DIGITS = /^[-+]?\d[\d_]*_[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/** Keys are text whatever they look like: `true:` and `1:` are the keys "true" and "1". */
function keyText(node: Scalar): string | undefined {
  if (typeof node.value === "string") return node.value;
  return node.source ?? undefined;
}

function notice(at: Position, path: Path, text: string): Notice {
  const { path: shown } = finding(at, path, "", "");
  return { at, path: shown, text };
}

export const API_VERSION = "fluxninja.com/v1alpha1";
const POLICY_KEYS: readonly string[] = [
  "apiVersion",
  "kind",
  "metadata",
  "spec",
  "dynamicConfig",
  "status",
];
const LIST_KEYS: readonly string[] = ["apiVersion", "kind", "metadata", "items"];

function unwrap(root: Tree, stem: string, into: PolicyDocument[], report: Report): void {
  const say = (at: Position, path: Path, wanted: string, got: string): void => {
    report.findings.push(finding(at, path, wanted, got));
  };
  const take = (tree: Tree, path: Path): void => {
    if (tree.kind !== "map") {
      say(
        tree.at,
        path,
        `an object at the ${path.length === 0 ? "top level" : "place"}`,
        describe(tree),
      );
      return;
    }
    if (!tree.entries.some(({ key }) => key === "apiVersion" || key === "kind")) {
      const name = path.length === 0 ? checkName(stem, tree.at, [], say) : undefined;
      if (path.length > 0) say(tree.at, path, "an object of kind Policy", "no apiVersion and kind");
      if (name === undefined) return;
      into.push({ name, at: tree.at, tree, path, root, dynamicConfig: undefined });
      return;
    }
    const isList = path.length === 0 && textOf(tree, "kind") === "PolicyList";
    checkHead(tree, path, isList ? "PolicyList" : "Policy", say);
    if (isList) {
      const items = member(tree, "items");
      if (items?.kind === "list")
        for (const [at, item] of items.items.entries()) take(item, ["items", at]);
      else say(items?.at ?? tree.at, ["items"], "a list", items ? describe(items) : "nothing");
      return;
    }
    takeObject(tree, path);
  };
  const takeObject = (tree: Tree, path: Path): void => {
    const metadata = member(tree, "metadata");
    const named = member(metadata, "name");
    const namePath = [...path, "metadata", "name"];
    if (named?.kind !== "text") {
      const at = named?.at ?? metadata?.at ?? tree.at;
      say(at, namePath, "the policy's name as text", named ? describe(named) : "nothing");
      return;
    }
    const name = checkName(named.value, named.at, namePath, say);
    const spec = member(tree, "spec");
    if (spec === undefined) say(tree.at, [...path, "spec"], "a policy", "nothing");
    const dynamicConfig = member(tree, "dynamicConfig");
    if (dynamicConfig !== undefined && dynamicConfig.kind !== "map") {
      say(dynamicConfig.at, [...path, "dynamicConfig"], "an object", describe(dynamicConfig));
    }
    if (name === undefined || spec === undefined) return;
    into.push({ name, at: tree.at, tree: spec, path: [...path, "spec"], root, dynamicConfig });
  };
  take(root, []);
}

type SayAt = (at: Position, path: Path, wanted: string, got: string) => void;

function checkHead(tree: Tree, path: Path, kind: "Policy" | "PolicyList", say: SayAt): void {
  if (tree.kind !== "map") return;
  const wanted = { apiVersion: API_VERSION, kind };
  for (const [key, value] of Object.entries(wanted)) {
    const found = member(tree, key);
    if (found?.kind === "text" && found.value === value) continue;
    say(found?.at ?? tree.at, [...path, key], value, found ? describe(found) : "nothing");
  }
  const known = kind === "Policy" ? POLICY_KEYS : LIST_KEYS;
  for (const { key, keyAt } of tree.entries) {
    if (known.includes(key)) continue;
    say(keyAt, [...path, key], `one of ${known.join(", ")}`, "a key that is not known here");
  }
}

function textOf(tree: Tree, key: string): string | undefined {
  const found = member(tree, key);
  return found?.kind === "text" ? found.value : undefined;
}

/** Names become parts of storage keys, where `/` separates. */
function checkName(name: string, at: Position, path: Path, say: SayAt): string | undefined {
  if (name !== "" && !name.includes("/")) return name;
  say(at, path, "a policy name without `/`", quote(name));
  return undefined;
}
