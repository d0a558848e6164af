// The offered load of a queue: the rate at which flows ask for tokens, weighted by priority. Queues of several agents that
// wait for the same tokens ask for them in proportion to their offered loads, and so get them in these shares.

import type { Job } from "./fair-queue.ts";

/** Time over which arrivals are averaged, and the shortest time from which a rate is computed, ms. */
const WINDOW_MS = 2_000;
const SHORTEST_MS = 100;

/** Limit of workloads that are told apart. Further ones count as one. */
const MAX_WORKLOADS = 64;

interface Rate {
  /** Tokens that arrived until `at`; older ones count less. */
  tokens: number;
  /** The same tokens, each times the priority of its flow. */
  weighted: number;
  at: number;
}

export class OfferedLoad {
  readonly #rates = new Map<string, Rate>();
  readonly #since: number;

  constructor(now: number) {
    this.#since = now;
  }

  arrived({ workload, priority, tokens }: Job, now: number): void {
    const known = this.#rates.has(workload) || this.#rates.size < MAX_WORKLOADS;
    const name = known ? workload : "";
    const rate = this.#rates.get(name);
    if (rate === undefined) this.#rates.set(name, { tokens, weighted: tokens * priority, at: now });
    else {
      const kept = decay(now - rate.at);
      rate.tokens = rate.tokens * kept + tokens;
      rate.weighted = rate.weighted * kept + tokens * priority;
      rate.at = now;
    }
  }

  /**
   * The sum over workloads of tokens per ms times mean priority, which counts as at least `minPriority`. A workload counts
   * for at most `maxRate` tokens per ms, the rate of the bucket, so that a flood at one agent does not take the share of
   * workloads at other agents.
   */
  weight(maxRate: number, minPriority: number, now: number): number {
    const age = Math.max(SHORTEST_MS, now - this.#since);
    const window = WINDOW_MS * (1 - decay(age));
    let sum = 0;
    for (const { tokens, weighted, at } of this.#rates.values()) {
      if (tokens <= 0) continue;
      const priority = Math.max(minPriority, weighted / tokens);
      sum += priority * Math.min(maxRate, (tokens * decay(now - at)) / window);
    }
    return sum;
  }
}

function decay(ms: number): number {
  return Math.exp(-ms / WINDOW_MS);
}
