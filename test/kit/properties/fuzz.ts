// Properties that fuzz a reader of foreign bytes: a short run in every test, and as long a one as wanted by hand.

import process from "node:process";

/** Parameters of fast-check. `FUZZ_TIMES=1000` makes the run that many times as long; a failure prints how to repeat it. */
export function fuzzRuns(numRuns: number): { readonly numRuns: number } {
  return { numRuns: numRuns * Number(process.env["FUZZ_TIMES"] ?? 1) };
}
