// Answers the queries of circuits with no other server: by this room's evaluator over Sluice's own samples.

import { compileQuery, type Query } from "./evaluate.ts";
import type { Measure, Result } from "./result.ts";
import type { SampleStore } from "./samples.ts";

/** Queries come from loaded policies; those of ones that are gone make room. */
const MAX_QUERIES = 4_096;

export class OwnMeasure implements Measure {
  readonly #samples: SampleStore;
  readonly #compiled = new Map<string, Query>();

  constructor(samples: SampleStore) {
    this.#samples = samples;
  }

  /** Queries that are ready to be run again. */
  get ready(): number {
    return this.#compiled.size;
  }

  async query(text: string, at: number, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted();
    return this.#compile(text)(at, this.#samples);
  }

  #compile(text: string): Query {
    const known = this.#compiled.get(text);
    if (known !== undefined) return known;
    const query = compileQuery(text);
    // Starting over costs less than any order of eviction.
    if (this.#compiled.size >= MAX_QUERIES) this.#compiled.clear();
    this.#compiled.set(text, query);
    return query;
  }
}
