// The engine behind regular expressions. An expression whose automaton is small gets all states of it when it is compiled,
// and then costs one step for each character. Any other is searched for by backtracking with a memory of what was visited,
// whose work is bounded by the size of the program times the length of the value.

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
  // `test` would make states while it runs, each of which takes as many steps as there are instructions, and would keep up
  // to 8 MB of them. The library uses an engine without states where it is asked for the place of the match.
  const search = RE2JS.compile(program.pattern());
  const cost = search.programSize() + wide;
  return { test: (value) => search.matcher(value).find(), cost };
}

/** Number of instructions that compare with many ranges of characters, such as `\pL`, which takes twice as long. */
function wideClasses(program: RE2JS): number {
  const { inst } = program.re2().prog;
  return inst.filter(({ runes }: { readonly runes: Int32Array }) => runes.length > 16).length;
}

/**
 * Instructions that are looked at to make all states, which takes about 3 ms. Most expressions in policies need fewer than
 * 10 000, and their states take 2 to 12 kB.
 */
const MAX_LOOKED = 40_000;

const UNANCHORED = 0;
const END_OF_TEXT = -1;
/** The library asks an input only where it is: here, at the beginning of the text. */
const BEGINNING = Object.freeze({ context: () => 4 });

/** Makes all states that a search can reach. False where these are too many: then the program holds some of them. */
function completeAutomaton(program: RE2JS): boolean {
  const re2 = program.re2();
  const { dfa, prog } = re2;
  const { inst } = prog;
  let looked = 0;
  prog.getInst = (at: number) => {
    looked += 1;
    return inst[at];
  };
  const classes = dfa.numClasses;
  const states = new Set([dfa.start(BEGINNING, 0)]);
  for (const state of states) {
    for (let at = 0; at <= classes; at++) {
      // Each class has a character of its own, the first one.
      const rune = at === classes ? END_OF_TEXT : at === 0 ? 0 : dfa.classBounds[at - 1];
      const next = dfa.step(state, at, rune, UNANCHORED);
      looked += 1;
      // There is no next state where the states fill the library's memory for them.
      if (next === null || looked > MAX_LOOKED) return false;
      // A search ends with its first match.
      if (at < classes && !next.isMatch) states.add(next);
    }
  }
  // The library prefers another engine for some expressions, which takes several steps for each character.
  Object.assign(re2, { onepass: null });
  return true;
}
