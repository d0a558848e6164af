// Answers queries from samples that are kept in memory, as a Prometheus server (version 3) would from its own.

import { Fault } from "#base/fault.ts";
import { compile } from "./evaluate/compile.ts";
import { judgeQuery } from "./judge.ts";
import { parse } from "./parse.ts";
import type { Result } from "./result.ts";
import type { SampleStore } from "./samples.ts";

/** At Unix ms. Faults with FAILED_PRECONDITION where the samples and the query do not go together. */
export type Query = (at: number, samples: SampleStore) => Result;

/** Faults with INVALID_ARGUMENT and everything that `judgeQuery` says. */
export function compileQuery(text: string): Query {
  const faults = judgeQuery(text, "own");
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  const compiled = compile(parse(text));
  switch (compiled.type) {
    case "string":
      return () => ({ kind: "string", value: compiled.value });
    case "scalar":
      return (at, samples) => ({ kind: "scalar", value: compiled.run({ at, samples }) });
    case "vector":
      return (at, samples) => ({ kind: "vector", samples: compiled.run({ at, samples }) });
  }
}
