// Reads the words of a query with Prometheus's own grammar, and says why where they cannot be read: because
// they are wrong, or because there are more of them than are read.

import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";
import type { Fault } from "#base/fault.ts";
import { complain, syntaxFault } from "./complaint.ts";

/** Expressions nest, and so do the calls that read, print and evaluate them. */
const MAX_DEPTH = 500;
/** UTF-16 units: far above any query that people or programs write. */
const MAX_LENGTH = 65_536;
/** Names that the grammar looks for in a table of keywords which every object's members seem to be in. */
const MEMBERS = /\b(?:constructor|__proto__)\b/gi;

/** `functions` are those that calls may name. */
export function readWords(text: string, functions: readonly string[]): SyntaxNode {
  if (text.length > MAX_LENGTH) {
    throw complain(text, 0, `wanted at most ${MAX_LENGTH} characters, got ${text.length}`);
  }
  const top = topOf(text);
  const { error, deepest } = survey(top);
  if (deepest !== undefined) throw tooDeep(text, deepest);
  if (error === undefined) return only(top);
  throw givenUp(text, top, error) ?? syntaxFault(text, error, functions);
}

/** Nodes without comments. */
export function parts(node: SyntaxNode): readonly SyntaxNode[] {
  const all: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.name !== "LineComment") all.push(child);
  }
  return all;
}

export function only(node: SyntaxNode): SyntaxNode {
  const [child] = parts(node);
  if (child === undefined) throw new Error(`the grammar gave an empty ${node.name}`);
  return child;
}

function topOf(text: string): SyntaxNode {
  // Places stay the same: the tree is read with the text as it was given.
  return parser.parse(text.replace(MEMBERS, (name) => "_".repeat(name.length))).topNode;
}

function tooDeep(text: string, from: number): Fault {
  return complain(text, from, `wanted at most ${MAX_DEPTH} levels, got more`);
}

/** The first place that cannot be read, and the first that nests too deep. */
function survey(top: SyntaxNode): {
  readonly error: number | undefined;
  readonly deepest: number | undefined;
} {
  let error: number | undefined;
  let deepest: number | undefined;
  let depth = 0;
  top.cursor().iterate(
    ({ type, from }) => {
      depth += 1;
      if (depth > MAX_DEPTH) deepest ??= from;
      if (type.isError && (error === undefined || from < error)) error = from;
    },
    () => {
      depth -= 1;
    },
  );
  return { error, deepest };
}

/**
 * The grammar gives up on long chains of operators as if the next word were wrong. It is not when the chain can
 * be any name instead.
 */
function givenUp(text: string, top: SyntaxNode, error: number): Fault | undefined {
  let chain: { readonly from: number; readonly to: number } | undefined;
  let operators = 0;
  top.cursor().iterate(({ name, from, to }) => {
    if (name !== "BinaryExpr" || to > error) return;
    if (chain === undefined || to - from > chain.to - chain.from) {
      chain = { from, to };
      operators = 0;
    }
    if (from === chain.from) operators += 1;
  });
  if (chain === undefined) return undefined;
  const { from, to } = chain;
  const shorter = `${text.slice(0, from)}${"a".padEnd(to - from)}${text.slice(to)}`;
  const next = survey(topOf(shorter)).error;
  if (next !== undefined && next <= error) return undefined;
  const wanted = `wanted at most ${operators} operators in a row here, got more`;
  return complain(text, error, `${wanted}; parentheses around some of them help`);
}
