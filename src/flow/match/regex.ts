// Tests of label values against RE2 expressions. Most expressions in policies are a few anchored literals, which
// become plain comparisons. The others run on a linear-time engine behind a small memo, because flows repeat the
// same few label values.

import { RE2JS } from "re2js";
import { Fault } from "#base/fault.ts";

export type Test = (value: string) => boolean;

/** An unanchored test. Throws a Fault with INVALID_ARGUMENT and the reason when the text is not an RE2 expression. */
export function compileRegex(regex: string): Test {
  const engine = compileEngine(regex);
  return compileLiterals(regex) ?? memoised((value) => engine.test(value));
}

function compileEngine(regex: string): RE2JS {
  try {
    return RE2JS.compile(regex);
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    const why = reason.replace(/^error parsing regexp: /, "");
    throw new Fault("INVALID_ARGUMENT", `regex "${regex}" is not RE2: ${why}`, { cause: thrown });
  }
}

const MEMO_ENTRIES = 256;
/** Longer values are rare, and keeping them could keep request bodies alive. */
const MEMO_VALUE_LENGTH = 128;

function memoised(test: Test): Test {
  const memo = new Map<string, boolean>();
  return (value) => {
    if (value.length > MEMO_VALUE_LENGTH) return test(value);
    const known = memo.get(value);
    if (known !== undefined) return known;
    const result = test(value);
    // Clearing costs less than any order of eviction, and no flood of values can grow the memo.
    if (memo.size >= MEMO_ENTRIES) memo.clear();
    memo.set(value, result);
    return result;
  };
}

/** A literal, and whether the value must start or end there. */
interface Literal {
  readonly text: string;
  readonly start: boolean;
  readonly end: boolean;
}

/** With more comparisons the engine is as fast. */
const MAX_COMPARISONS = 8;

/** Undefined for expressions that are not just alternatives of (anchored) literals. */
function compileLiterals(regex: string): Test | undefined {
  const alternatives = parseAlternatives(regex);
  if (alternatives === undefined) return undefined;
  const [only] = alternatives;
  if (only !== undefined && alternatives.length === 1) return compileLiteral(only);
  if (alternatives.every(({ start, end }) => start && end)) {
    const set = new Set(alternatives.map(({ text }) => text));
    return (value) => set.has(value);
  }
  if (alternatives.length > MAX_COMPARISONS) return undefined;
  const tests = alternatives.map(compileLiteral);
  return (value) => {
    for (const test of tests) if (test(value)) return true;
    return false;
  };
}

function compileLiteral({ text, start, end }: Literal): Test {
  if (start && end) return (value) => value === text;
  if (start) return (value) => value.startsWith(text);
  if (end) return (value) => value.endsWith(text);
  return (value) => value.includes(text);
}

/** `^?(literal|literal…)$?`, the group with or without `?:`, or the same without a group. */
const GROUPED = /^(\^?)\((?:\?:)?((?:[^()\\]|\\.)*)\)(\$?)$/s;
const ANCHORED = /^(\^?)((?:[^$\\]|\\.)*)(\$?)$/s;

function parseAlternatives(regex: string): readonly Literal[] | undefined {
  // A lone surrogate would match inside whole characters, which the engine does not do.
  if (!regex.isWellFormed()) return undefined;
  const group = GROUPED.exec(regex);
  if (group !== null) {
    const [, start = "", body = "", end = ""] = group;
    return collect(body, (part) => literal(part, start !== "", end !== ""));
  }
  return collect(regex, (part) => {
    const [, start = "", body, end = ""] = ANCHORED.exec(part) ?? [];
    return body === undefined ? undefined : literal(body, start !== "", end !== "");
  });
}

function collect(
  body: string,
  parse: (part: string) => Literal | undefined,
): readonly Literal[] | undefined {
  const literals: Literal[] = [];
  for (const part of splitBars(body)) {
    const parsed = parse(part);
    if (parsed === undefined) return undefined;
    literals.push(parsed);
  }
  return literals;
}

/** Splits at `|`, but not at `\|`. */
function splitBars(body: string): readonly string[] {
  const parts: string[] = [];
  let start = 0;
  for (let at = 0; at < body.length; at++) {
    if (body[at] === "\\") at++;
    else if (body[at] === "|") {
      parts.push(body.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(body.slice(start));
  return parts;
}

/** Plain characters and escaped ASCII punctuation; letters behind a backslash are classes. */
const PLAIN = /^(?:[^\\.+*?()|[\]{}^$]|\\[!-/:-@[-`{-~])*$/;

function literal(body: string, start: boolean, end: boolean): Literal | undefined {
  if (!PLAIN.test(body)) return undefined;
  return { text: body.replace(/\\(.)/gs, "$1"), start, end };
}
