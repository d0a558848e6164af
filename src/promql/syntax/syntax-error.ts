// Messages for queries that the grammar cannot parse: where, what was wanted there, and what was got.

import { Fault } from "#base/fault.ts";
import { nearest } from "#base/text/spelling.ts";

/** `column 7`, with the line where the text has several. `from` counts from 0. */
export function positionText(text: string, from: number): string {
  const before = text.slice(0, from).split("\n");
  const column = (before.at(-1)?.length ?? 0) + 1;
  return before.length > 1 ? `line ${before.length} column ${column}` : `column ${column}`;
}

export function faultAt(text: string, from: number, what: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${positionText(text, from)}: ${what}`);
}

const TOKEN =
  /\s+|#[^\n]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?|[a-zA-Z_:][\w:]*|[\d.][\w.]*|=~|!~|==|!=|<=|>=|./gsu;
const INFIX = /^(?:[-+*/%^]|[=!<>]=|[<>]|and|or|unless|atan2|bool)$/i;

interface Token {
  readonly text: string;
  readonly from: number;
}

/** The fault of a text whose first syntax error is at `from`. `functions` are all known function names. */
export function syntaxFault(text: string, from: number, functions: readonly string[]): Fault {
  const tokens = tokensOf(text);
  const at = tokens.findIndex((token) => token.from + token.text.length > from);
  const before = at === -1 ? tokens : tokens.slice(0, at);
  const got = at === -1 ? undefined : tokens[at];
  const last = before.at(-1);
  if (got?.text === "(" && last !== undefined && /^[a-z_:]/i.test(last.text)) {
    const meant = nearest(last.text, functions);
    const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
    return faultAt(text, last.from, `wanted a function, got ${last.text}${hint}`);
  }
  const found = got === undefined ? "the end" : got.text;
  return faultAt(text, got?.from ?? text.length, `wanted ${wanted(before)}, got ${found}`);
}

function wanted(before: readonly Token[]): string {
  const open: string[] = [];
  for (const { text } of before) {
    if (/^[([{]$/.test(text)) open.push(text);
    else if (/^[)\]}]$/.test(text)) open.pop();
  }
  const last = before.at(-1)?.text;
  const inside = open.at(-1);
  if (inside === "{") return "a label matcher (name, one of = != =~ !~, a string in quotes) or }";
  if (inside === "[") return "a duration such as 5m, and ]";
  if (last === undefined || last === "(" || last === "," || INFIX.test(last))
    return "an expression";
  return inside === "(" ? "an operator, a comma or )" : "an operator or the end";
}

function tokensOf(text: string): readonly Token[] {
  const all: Token[] = [];
  for (const found of text.matchAll(TOKEN)) {
    if (!/^[\s#]/.test(found[0])) all.push({ text: found[0], from: found.index });
  }
  return all;
}
