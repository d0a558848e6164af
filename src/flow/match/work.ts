// Limits the work of regular expressions for one check, because all checks share one event loop and clients choose many label
// values.

/**
 * In steps. In one step an engine visits one instruction or one character, in about 25 ns. So all steps together take less
 * than 5 ms, which `test/bench/rooms/flow/regex.ts` measures.
 */
export const WORK_PER_CHECK = 131_072;

/** The rest of the work that a check may do. */
export interface Work {
  /**
   * Takes steps from the rest. Takes none and returns false if they are more than half of the rest, so that shorter values
   * of other labels can still be tested.
   */
  spend(steps: number): boolean;
}

/** Undefined if it depends on an expression that would do too much work. */
export type Match = boolean | undefined;
