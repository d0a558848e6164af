// Evaluates queries over samples in memory, with the results that a Prometheus server (version 3) would give.

import { compile } from "./evaluate/compile.ts";
import { type CompiledSelector, compileSelector } from "./evaluate/selector.ts";
import type { Compiled } from "./evaluate/value.ts";
import type { Result } from "./result.ts";
import type { SampleStore } from "./samples.ts";
import { type Expr, walk } from "./syntax/ast.ts";
import { parseValid } from "./validate.ts";

/** Evaluates at `at`, Unix ms. Throws FAILED_PRECONDITION when the samples do not allow the operation. */
export type Query = (at: number, samples: SampleStore) => Result;

/** Compiles queries. Those that differ only in the values of their matchers, as policies do, share their closures. */
export class QueryCompiler {
  readonly #shared = new Map<string, Compiled>();

  /**
   * `known` are its selectors if they are compiled already. Throws INVALID_ARGUMENT with all faults of `validateQuery`.
   */
  compile(text: string, known?: readonly CompiledSelector[]): Query {
    const expr = parseValid(text, "own");
    const key = keyOf(expr);
    const compiled = this.#shared.get(key) ?? compile(expr);
    this.#shared.set(key, compiled);
    const selectors = known ?? selectorsOf(expr);
    switch (compiled.type) {
      case "string":
        return () => ({ kind: "string", value: compiled.value });
      case "scalar":
        return (at, samples) => {
          return { kind: "scalar", value: compiled.run({ at, samples, selectors }) };
        };
      case "vector":
        return (at, samples) => {
          return { kind: "vector", samples: compiled.run({ at, samples, selectors }) };
        };
    }
  }

  /** Number of closures, each for any number of queries. */
  get size(): number {
    return this.#shared.size;
  }

  clear(): void {
    this.#shared.clear();
  }
}

/** The selectors, in the order of `Selector.index`. */
function selectorsOf(expr: Expr) {
  const selectors = [...walk(expr)].filter((node) => node.kind === "selector");
  return selectors.sort((one, two) => one.index - two.index).map(compileSelector);
}

/** Everything that the closures of a query depend on: its tree without positions and matchers. */
function keyOf(expr: Expr): string {
  return JSON.stringify(expr, (key, value) => {
    if (key === "from" || key === "matchers") return undefined;
    // JSON cannot express NaN and infinities.
    return typeof value === "number" && !Number.isFinite(value) ? { number: String(value) } : value;
  });
}
