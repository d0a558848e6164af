// Answers the queries of circuits without a Prometheus server: evaluates them over samples of Sluice's own
// metrics.

import { Fault } from "#base/fault.ts";
import { type Query, QueryCompiler } from "./evaluate.ts";
import type { QueryEngine, Result } from "./result.ts";
import type { SampleStore } from "./samples.ts";

/** Size of the cache of compiled queries, which come from loaded policies. */
const MAX_QUERIES = 4_096;

export class LocalQueryEngine implements QueryEngine {
  readonly #samples: SampleStore;
  readonly #compiler = new QueryCompiler();
  readonly #compiled = new Map<string, Query>();

  constructor(samples: SampleStore) {
    this.#samples = samples;
  }

  /** Number of compiled queries in the cache. */
  get cached(): number {
    return this.#compiled.size;
  }

  async query(text: string, at: number, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted();
    // A wrong number is worse than none: without one, the policy says what happens.
    if (this.#samples.isIncomplete(text, at)) {
      throw new Fault(
        "FAILED_PRECONDITION",
        "samples that it needs were lost: it selects more series, or a longer range of them, than there is room for",
      );
    }
    return this.#compile(text)(at, this.#samples);
  }

  #compile(text: string): Query {
    const known = this.#compiled.get(text);
    if (known !== undefined) return known;
    // Clearing the cache is cheaper than keeping an order of eviction.
    if (this.#compiled.size >= MAX_QUERIES) {
      this.#compiled.clear();
      this.#compiler.clear();
    }
    const query = this.#compiler.compile(text, this.#samples.selectorsOf(text));
    this.#compiled.set(text, query);
    return query;
  }
}
