// Builds trees from the nodes of the YAML parser: resolves aliases, turns keys into text, reads numbers as this
// language does, and bounds size and depth for the whole text.

import type { Node, Scalar } from "yaml";
import { type Alias, isAlias, isMap, isScalar, isSeq } from "yaml";
import type { Report } from "./finding.ts";
import { type Path, type Position, quote, type Tree, type TreeEntry } from "./tree.ts";

/** Far more than any real policy has. Each use of an alias counts, so aliases cannot multiply without bound. */
const MAX_NODES = 200_000;
export const MAX_DEPTH = 200;

/** Reports a part that is nested more than `MAX_DEPTH` levels deep. */
export function deeperNesting(at: Position, report: Report): void {
  report.refuse(at, [], `at most ${MAX_DEPTH} levels`, "deeper nesting");
}

export class TreeBuilder {
  readonly #at: (offset: number) => Position;
  readonly #report: Report;
  #targets: ReadonlyMap<Alias, Node> = new Map();
  #nodes = 0;

  constructor(at: (offset: number) => Position, report: Report) {
    this.#at = at;
    this.#report = report;
  }

  /** True once a bound was exceeded: the report has the finding, and the rest of the text is skipped. */
  get exhausted(): boolean {
    return this.#nodes >= MAX_NODES;
  }

  /** The tree of one document. */
  root(contents: Node | null): Tree {
    this.#targets = targetsIn(contents);
    return this.#build(contents, [], 0);
  }

  #build(node: Node | null, path: Path, depth: number): Tree {
    const at = this.#at(node?.range?.[0] ?? 0);
    this.#nodes += 1;
    if (this.#nodes === MAX_NODES) {
      const wanted = `at most ${MAX_NODES} nodes, counting each use of an alias`;
      this.#report.refuse(at, path, wanted, "more");
    }
    if (depth > MAX_DEPTH) {
      deeperNesting(at, this.#report);
      this.#nodes = MAX_NODES;
    }
    if (node === null || this.exhausted) return { kind: "null", at };
    if (isAlias(node)) return this.#alias(node, at, path, depth);
    if (isMap(node)) {
      return { kind: "map", at, entries: this.#entries(node.items, path, depth) };
    }
    if (isSeq(node)) {
      const items: Tree[] = [];
      for (const [index, item] of node.items.entries()) {
        if (this.exhausted) break;
        items.push(this.#build(item as Node | null, [...path, index], depth + 1));
      }
      return { kind: "list", at, items };
    }
    return isScalar(node) ? this.#scalar(node, at, path) : { kind: "null", at };
  }

  #alias(node: Alias, at: Position, path: Path, depth: number): Tree {
    const target = this.#targets.get(node);
    if (target !== undefined) return this.#build(target, path, depth + 1);
    const got = `the alias ${quote(node.source)}`;
    this.#report.refuse(at, path, "an anchor that is defined earlier in the document", got);
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
      if (this.exhausted) break;
      const node = pair.key as Node | null;
      const keyAt = this.#at(node?.range?.[0] ?? 0);
      const key = isScalar(node) ? keyText(node) : undefined;
      if (key === undefined) {
        this.#report.refuse(keyAt, path, "a key that is a scalar", "a key of another type");
        continue;
      }
      if (!key.isWellFormed()) {
        this.#report.refuse(keyAt, path, "a key in well-formed Unicode", quote(key));
        continue;
      }
      const first = seen.get(key);
      if (first !== undefined) {
        const got = `the same key again (first on line ${first.line})`;
        this.#report.refuse(keyAt, [...path, key], "each key once", got);
        continue;
      }
      seen.set(key, keyAt);
      const value = this.#build(pair.value as Node | null, [...path, key], depth + 1);
      // A missing value has no position of its own.
      entries.push({
        key,
        keyAt,
        value: pair.value === null ? { kind: "null", at: keyAt, unwritten: true } : value,
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
      const digits = BigInt(`0o${source.replace(/^[-+]/, "")}`);
      const octal = source.startsWith("-") ? -digits : digits;
      this.#report.warn("unusual_value", at, path, `${source} is read as octal, ${octal}`);
      return { kind: "number", at, value: Number(octal), source: String(octal) };
    }
    if (typeof value !== "string") {
      return source === "" ? { kind: "null", at, unwritten: true } : { kind: "null", at };
    }
    // An escape such as \ud800 alone has no UTF-8 form: agents would refuse the whole configuration that holds it.
    if (!value.isWellFormed()) {
      this.#report.refuse(at, path, "text in well-formed Unicode", quote(value));
      return { kind: "null", at };
    }
    if (node.type === "PLAIN" && node.tag === undefined && isGrouped(value)) {
      const ungrouped = value.replaceAll("_", "");
      return { kind: "number", at, value: Number(ungrouped), source: ungrouped };
    }
    return { kind: "text", at, value };
  }
}

/**
 * The target of each alias: the latest earlier anchor of that name, as YAML defines. Found in one walk, because
 * the parser's own `resolve` walks the document again for every alias.
 */
function targetsIn(contents: Node | null): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  const walk = (node: Node | null, depth: number): void => {
    if (node === null || depth > MAX_DEPTH) return;
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target !== undefined) targets.set(node, target);
      return;
    }
    if ((isScalar(node) || isMap(node) || isSeq(node)) && node.anchor !== undefined) {
      anchors.set(node.anchor, node);
    }
    if (isSeq(node)) for (const item of node.items) walk(item as Node | null, depth + 1);
    if (!isMap(node)) return;
    for (const { key, value } of node.items) {
      walk(key as Node | null, depth + 1);
      walk(value as Node | null, depth + 1);
    }
  };
  walk(contents, 0);
  return targets;
}

/** `017`: decimal in YAML 1.2, octal in this language. */
const LEADING_ZERO = /^[-+]?0[0-7]+$/;

const GROUPED_DIGITS = /^[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/** `1_000`: text in YAML 1.2, a number in this language. */
function isGrouped(text: string): boolean {
  return text.includes("_") && GROUPED_DIGITS.test(text);
}

/** Keys are always text: `true:` and `1:` are the keys "true" and "1". */
function keyText(node: Scalar): string | undefined {
  if (typeof node.value === "string") return node.value;
  return node.source ?? undefined;
}
