// The engine behind regular expressions. An expression whose automaton is small gets all states of it when it is compiled,
// and then costs one step for each character. Any other is searched for by backtracking with a memory of what was visited,
// whose work is bounded by the size of the program times the length of the value.

import { RE2JS } from "re2js";
import { Fault } from "#base/fault.ts";

export interface Engine {
  test(value: string): boolean;
  /** Number of instructions. */
  readonly size: number;
  /** Units of work for each UTF-16 unit of a value, at most. */
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
  const size = program.programSize();
  if (completeAutomaton(program)) return { test: (value) => program.test(value), size, cost: 1 };
  // `test` would make states while it runs, each of which takes as many steps as there are instructions, and would keep up
  // to 8 MB of them. The library uses an engine without states where it is asked for the place of the match.
  const search = RE2JS.compile(program.pattern());
  return { test: (value) => search.matcher(value).find(), size, cost: size };
}

/**
 * Instructions that are looked at to find all states, about 2 ms. Most expressions in policies need less than 5 000, and
 * the states take less than 0.2 MB.
 */
const MAX_EXPLORED = 20_000;

const UNANCHORED = 0;
const END_OF_TEXT = -1;
/** The library asks an input only where it is: here, at the beginning of the text. */
const BEGINNING = Object.freeze({ context: () => 4 });

/** Makes all states that a search can reach. False where these are too many. */
function completeAutomaton(program: RE2JS): boolean {
  const re2 = program.re2();
  const { dfa } = re2;
  const classes = dfa.numClasses;
  const states = new Set([dfa.start(BEGINNING, 0)]);
  let explored = 0;
  for (const state of states) {
    for (let at = 0; at <= classes; at++) {
      explored += 1 + state.nfaStates.length;
      if (explored > MAX_EXPLORED) return false;
      // Each class has a character of its own, the first one.
      const rune = at === classes ? END_OF_TEXT : at === 0 ? 0 : dfa.classBounds[at - 1];
      const next = dfa.step(state, at, rune, UNANCHORED);
      // Its memory is full.
      if (next === null) return false;
      // A search ends with its first match.
      if (at < classes && !next.isMatch) states.add(next);
    }
  }
  // The library prefers another engine for some expressions, which takes several steps for each character.
  Object.assign(re2, { onepass: null });
  return true;
}
