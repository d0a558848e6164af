// The pressure at a queue: how fast tokens are asked for at it, and how important they are. Queues of several agents that
// wait for the same tokens ask for them as often as their pressures demand, and so get them in these shares.

import type { FairRequest } from "./fair-queue.ts";

/** Time over which arrivals are averaged, ms; and the shortest time for which a rate is believed. */
const WINDOW_MS = 2_000;
const SHORTEST_MS = 100;

/** Most workloads that are told apart. Further ones count as one. */
const MAX_WORKLOADS = 64;

interface Rate {
  /** Tokens that arrived, the older ones counted less, as of `at`. */
  tokens: number;
  /** The same tokens, each times the priority of its flow. */
  weighted: number;
  at: number;
}

export class Pressure {
  readonly #rates = new Map<string, Rate>();
  readonly #since: number;

  constructor(now: number) {
    this.#since = now;
  }

  arrived({ workload, priority, tokens }: FairRequest, now: number): void {
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
   * Tokens per ms, times the mean priority of their workload, which is at least `leastPriority`. A workload counts for no more
   * than `most` tokens per ms, which is all that there is: so one that floods an agent does not take the part of those at
   * other agents.
   */
  weight(most: number, leastPriority: number, now: number): number {
    const age = Math.max(SHORTEST_MS, now - this.#since);
    const window = WINDOW_MS * (1 - decay(age));
    let sum = 0;
    for (const { tokens, weighted, at } of this.#rates.values()) {
      if (tokens <= 0) continue;
      const priority = Math.max(leastPriority, weighted / tokens);
      sum += priority * Math.min(most, (tokens * decay(now - at)) / window);
    }
    return sum;
  }
}

function decay(ms: number): number {
  return Math.exp(-ms / WINDOW_MS);
}
