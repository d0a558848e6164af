// Evaluates queries over samples in memory, with the results that a Prometheus server (version 3) would give.

import { compile } from "./evaluate/compile.ts";
import type { Result } from "./result.ts";
import type { SampleStore } from "./samples.ts";
import { parseValid } from "./validate.ts";

/** Evaluates at `at`, Unix ms. Throws FAILED_PRECONDITION when the samples do not allow the operation. */
export type Query = (at: number, samples: SampleStore) => Result;

/** Throws INVALID_ARGUMENT with everything that `validateQuery` finds. */
export function compileQuery(text: string): Query {
  const compiled = compile(parseValid(text, "own"));
  switch (compiled.type) {
    case "string":
      return () => ({ kind: "string", value: compiled.value });
    case "scalar":
      return (at, samples) => ({ kind: "scalar", value: compiled.run({ at, samples }) });
    case "vector":
      return (at, samples) => ({ kind: "vector", samples: compiled.run({ at, samples }) });
  }
}
