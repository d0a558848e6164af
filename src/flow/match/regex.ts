// Tests label values against RE2 expressions. Literals become comparisons. Other expressions run on an engine whose work is
// counted, behind a small memo, because flows repeat a few label values.

import { Fault } from "#base/fault.ts";
import { compileProgram, type Engine, engineOf } from "./engine.ts";
import { compileLiterals } from "./literals.ts";
import { type Match, WORK_PER_CHECK, type Work } from "./work.ts";

export interface Regex {
  /** True if the expression matches a part of the value. */
  test(value: string, work: Work): Match;
  /** Steps for each UTF-16 unit of a value, at most; 0 for comparisons. */
  readonly cost: number;
  /** Longest value that is tested if no other expression takes work, in UTF-16 units. */
  readonly longest: number;
}

/** With a higher cost, values of 33 characters could not be tested. */
const MAX_COST = 2_000;

/** Throws a Fault with INVALID_ARGUMENT and the reason when the text is not an RE2 expression, or is too large a one. */
export function compileRegex(regex: string): Regex {
  const program = compileProgram(regex);
  const compare = compileLiterals(regex);
  if (compare !== undefined) return { test: compare, cost: 0, longest: Number.POSITIVE_INFINITY };
  const engine = engineOf(program);
  const { cost } = engine;
  if (cost > MAX_COST) {
    const got = `regex "${regex}" takes up to ${cost} steps for each character`;
    const wanted = `at most ${MAX_COST} are allowed, because every check may have to test a value`;
    throw new Fault("INVALID_ARGUMENT", `${got}; ${wanted}`);
  }
  return { test: memoised(engine), cost, longest: Math.floor(WORK_PER_CHECK / 2 / cost) };
}

/** Limit of short values in the memo, and of their length. */
const MEMO_ENTRIES = 256;
const MEMO_VALUE_LENGTH = 128;
/** Of longer values only the last one is remembered, for the other rules of the check that share the expression. */
const LAST_VALUE_LENGTH = 4_096;

/** Remembered answers cost no work. */
function memoised({ test, cost }: Engine): Regex["test"] {
  const memo = new Map<string, boolean>();
  let last: string | undefined;
  let lastAnswer = false;
  return (value, work) => {
    const short = value.length <= MEMO_VALUE_LENGTH;
    if (!short && value === last) return lastAnswer;
    const known = short ? memo.get(value) : undefined;
    if (known !== undefined) return known;
    if (!work.spend(value.length * cost)) return undefined;
    const answer = test(value);
    if (short) {
      // Clearing costs less than eviction.
      if (memo.size >= MEMO_ENTRIES) memo.clear();
      memo.set(value, answer);
    } else if (value.length <= LAST_VALUE_LENGTH) {
      last = value;
      lastAnswer = answer;
    }
    return answer;
  };
}
