// Nodes of the YAML reader as trees: aliases followed, keys made text, numbers taken as this language takes
// them, all within bounds that hold for a whole text.

import type { Node, Scalar } from "yaml";
import { type Alias, isAlias, isMap, isScalar, isSeq } from "yaml";
import type { Report } from "../finding.ts";
import { type Path, type Position, quote, type Tree, type TreeEntry } from "../tree.ts";

/** Far above any real policy; aliases count each time they are used, so they cannot multiply. */
const MOST_NODES = 200_000;
const DEEPEST = 200;

export class Grower {
  readonly #at: (offset: number) => Position;
  readonly #report: Report;
  #targets: ReadonlyMap<Alias, Node> = new Map();
  #nodes = 0;

  constructor(at: (offset: number) => Position, report: Report) {
    this.#at = at;
    this.#report = report;
  }

  /** A bound was passed, which the report says: what is left of the text is not looked at. */
  get spent(): boolean {
    return this.#nodes >= MOST_NODES;
  }

  /** The contents of one document. */
  root(contents: Node | null): Tree {
    this.#targets = targetsIn(contents);
    return this.#grow(contents, [], 0);
  }

  #grow(node: Node | null, path: Path, depth: number): Tree {
    const at = this.#at(node?.range?.[0] ?? 0);
    this.#nodes += 1;
    if (this.#nodes === MOST_NODES) {
      const wanted = `at most ${MOST_NODES} parts, aliases counted each time`;
      this.#report.refuse(at, path, wanted, "more");
    }
    if (depth > DEEPEST) {
      this.#report.refuse(at, [], `at most ${DEEPEST} levels`, "deeper nesting");
      this.#nodes = MOST_NODES;
    }
    if (node === null || this.spent) return { kind: "null", at };
    if (isAlias(node)) return this.#alias(node, at, path, depth);
    if (isMap(node)) {
      return { kind: "map", at, entries: this.#entries(node.items, path, depth) };
    }
    if (isSeq(node)) {
      const items: Tree[] = [];
      for (const [index, item] of node.items.entries()) {
        if (this.spent) break;
        items.push(this.#grow(item as Node | null, [...path, index], depth + 1));
      }
      return { kind: "list", at, items };
    }
    return isScalar(node) ? this.#scalar(node, at, path) : { kind: "null", at };
  }

  #alias(node: Alias, at: Position, path: Path, depth: number): Tree {
    const target = this.#targets.get(node);
    if (target !== undefined) return this.#grow(target, path, depth + 1);
    const got = `the alias ${quote(node.source)}`;
    this.#report.refuse(at, path, "an anchor that stands before it", got);
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
      if (this.spent) break;
      const node = pair.key as Node | null;
      const keyAt = this.#at(node?.range?.[0] ?? 0);
      const key = isScalar(node) ? keyText(node) : undefined;
      if (key === undefined) {
        this.#report.refuse(keyAt, path, "keys that are plain text", "another key");
        continue;
      }
      const first = seen.get(key);
      if (first !== undefined) {
        const got = `the key again (first: line ${first.line})`;
        this.#report.refuse(keyAt, [...path, key], "each key once", got);
        continue;
      }
      seen.set(key, keyAt);
      const value = this.#grow(pair.value as Node | null, [...path, key], depth + 1);
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
      this.#report.note(at, path, `${source} is read as octal, ${octal}`);
      return { kind: "number", at, value: octal, source: String(octal) };
    }
    if (typeof value !== "string") return { kind: "null", at };
    if (node.type === "PLAIN" && node.tag === undefined && isGrouped(value)) {
      const ungrouped = value.replaceAll("_", "");
      return { kind: "number", at, value: Number(ungrouped), source: ungrouped };
    }
    return { kind: "text", at, value };
  }
}

/**
 * Each alias with the latest anchor of its name before it, as YAML says. All in one walk: the reader's own
 * `resolve` walks the document again for every alias.
 */
function targetsIn(contents: Node | null): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  const walk = (node: Node | null, depth: number): void => {
    if (node === null || depth > DEEPEST) return;
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

/** `017`: a number to every reader, but not the same one; the language takes it as octal. */
const LEADING_ZERO = /^[-+]?0[0-7]+$/;

const GROUPED_DIGITS = /^[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/** `1_000`: text in YAML 1.2, a number in this language. */
function isGrouped(text: string): boolean {
  return text.includes("_") && GROUPED_DIGITS.test(text);
}

/** Keys are text whatever they look like: `true:` and `1:` are the keys "true" and "1". */
function keyText(node: Scalar): string | undefined {
  if (typeof node.value === "string") return node.value;
  return node.source ?? undefined;
}
