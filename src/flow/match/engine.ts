// Runs regular expressions. A small automaton is built completely when the expression is compiled, and then takes one step
// for each character. Other expressions use backtracking that remembers visited states, whose work is bounded by the size
// of the program times the length of the value.

import { RE2JS } from "re2js";
import { Fault } from "#base/fault.ts";

export interface Engine {
  test(value: string): boolean;
  /** Steps for each UTF-16 unit of a value, at most. */
  readonly cost: number;
}

/** Throws a Fault with INVALID_ARGUMENT and the reason when the text is not an RE2 expression. */
export function compileProgram(regex: string): RE2JS {
  try {
    return RE2JS.compile(regex);
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    const why = reason.replace(/^error parsing regexp: /, "");
    throw new Fault("INVALID_ARGUMENT", `regex "${regex}" is not RE2: ${why}`, { cause: thrown });
  }
}

export function engineOf(program: RE2JS): Engine {
  const wide = wideClasses(program);
  if (completeAutomaton(program)) {
    return { test: (value) => program.test(value), cost: wide > 0 ? 2 : 1 };
  }
  // `test` would build states while it runs, each of which takes as many steps as there are instructions, and would keep up
  // to 8 MB of them. `find` uses an engine without states, because it has to know the position of the match.
  const search = RE2JS.compile(program.pattern());
  const cost = search.programSize() + wide;
  return { test: (value) => search.matcher(value).find(), cost };
}

/** Number of instructions with many ranges of characters, such as `\pL`. They take twice as long. */
function wideClasses(program: RE2JS): number {
  const { inst } = program.re2().prog;
  return inst.filter(({ runes }: { readonly runes: Int32Array }) => runes.length > 16).length;
}

/**
 * Limit of instructions to visit while an automaton is built, which takes about 3 ms. Most expressions in policies need
 * fewer than 10 000, and their states take 2 to 12 kB.
 */
const MAX_VISITED = 40_000;

const UNANCHORED = 0;
const END_OF_TEXT = -1;
/** An input at the beginning of the text, which is all that the library asks. */
const BEGINNING = Object.freeze({ context: () => 4 });

/** Builds all states that a search can reach. False if there are too many; the program then holds some of them. */
function completeAutomaton(program: RE2JS): boolean {
  const re2 = program.re2();
  const { dfa, prog } = re2;
  const { inst } = prog;
  let visited = 0;
  prog.getInst = (at: number) => {
    visited += 1;
    return inst[at];
  };
  const classes = dfa.numClasses;
  const states = new Set([dfa.start(BEGINNING, 0)]);
  for (const state of states) {
    for (let at = 0; at <= classes; at++) {
      // The first character of each class stands for it.
      const rune = at === classes ? END_OF_TEXT : at === 0 ? 0 : dfa.classBounds[at - 1];
      const next = dfa.step(state, at, rune, UNANCHORED);
      visited += 1;
      // The library has no next state when its memory for states is full.
      if (next === null || visited > MAX_VISITED) return false;
      // A search ends with its first match.
      if (at < classes && !next.isMatch) states.add(next);
    }
  }
  // Otherwise the library uses an engine with several steps for each character for some expressions.
  Object.assign(re2, { onepass: null });
  return true;
}
