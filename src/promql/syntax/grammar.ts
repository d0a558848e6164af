// Parses a query with Prometheus's own grammar, and tells syntax errors from queries that exceed the limits of the
// parser.

import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";
import type { Fault } from "#base/fault.ts";
import { faultAt, syntaxFault } from "./syntax-error.ts";

/** Maximum nesting: functions that parse, print and evaluate expressions recurse. */
const MAX_DEPTH = 500;
/** Maximum length in UTF-16 units; far above any real query. */
const MAX_LENGTH = 65_536;
/** Names that the grammar finds in its keyword table by mistake, because they are members of every object. */
const MEMBERS = /\b(?:constructor|__proto__)\b/gi;

/** `functions` are all known function names, for hints. */
export function parseSyntax(text: string, functions: readonly string[]): SyntaxNode {
  if (text.length > MAX_LENGTH) {
    throw faultAt(text, 0, `wanted at most ${MAX_LENGTH} characters, got ${text.length}`);
  }
  const top = topOf(text);
  const { error, deepest } = survey(top);
  if (deepest !== undefined) throw tooDeep(text, deepest);
  if (error === undefined) return onlyChild(top);
  throw chainTooLong(text, top, error) ?? syntaxFault(text, error, functions);
}

/** Child nodes without comments. */
export function childrenOf(node: SyntaxNode): readonly SyntaxNode[] {
  const all: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.name !== "LineComment") all.push(child);
  }
  return all;
}

export function onlyChild(node: SyntaxNode): SyntaxNode {
  const [child] = childrenOf(node);
  if (child === undefined) throw new Error(`the grammar gave an empty ${node.name}`);
  return child;
}

function topOf(text: string): SyntaxNode {
  // Replaced by names of the same length, so positions stay valid; the tree is read with the original text.
  return parser.parse(text.replace(MEMBERS, (name) => "_".repeat(name.length))).topNode;
}

function tooDeep(text: string, from: number): Fault {
  return faultAt(text, from, `wanted at most ${MAX_DEPTH} levels, got more`);
}

/** Position of the first syntax error, and of the first node that is nested too deep. */
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
 * The parser gives up on long chains of operators and reports the next token as wrong. This is the case if the
 * error disappears when a short name takes the place of the chain.
 */
function chainTooLong(text: string, top: SyntaxNode, error: number): Fault | undefined {
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
  return faultAt(text, error, `${wanted}; parentheses around some of them help`);
}
