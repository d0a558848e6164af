// The work that regular expressions may do for one check. All checks share one event loop and clients choose many label
// values, so a check whose expressions would do more is not decided by them.

/**
 * In steps: at each of them an engine looks at one instruction of its program, or at one character, in about 25 ns. So all
 * of them take less than 5 ms, which `test/bench/rooms/flow/regex.ts` measures.
 */
export const WORK_PER_CHECK = 131_072;

/** The work that one check may still do. */
export interface Work {
  /**
   * Takes steps from the rest. Takes nothing and returns false where that is more than half of the rest, so that a long
   * value of one label does not keep shorter values of others from being tested.
   */
  spend(steps: number): boolean;
}

/** The result of a match. Undefined where it depends on an expression that would do too much work. */
export type Match = boolean | undefined;
