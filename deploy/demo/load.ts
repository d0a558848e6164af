// Sends requests at random times at a given mean rate, however slow the answers are, and counts their outcomes.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface Tally {
  sent: number;
  /** Answered with 200 in time. */
  good: number;
  /** Answered with 200, but too late. */
  late: number;
  /** 429: rejected by the policy. */
  refused: number;
  /** Any other status, or no answer. */
  failed: number;
  /** Latencies of all answers with 200, in ms, in the order of arrival. */
  readonly latencies: number[];
}

export const newTally = (): Tally => ({
  sent: 0,
  good: 0,
  late: 0,
  refused: 0,
  failed: 0,
  latencies: [],
});

/** The quantile `q` (0 to 1), by nearest rank; undefined without values. */
export function quantile(q: number, values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

/** Interval at which requests that are due are sent. */
const STEP_MS = 5;

export class Load {
  readonly #url: string;
  readonly #goodMs: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

  constructor(url: string, goodMs: number) {
    this.#url = url;
    this.#goodMs = goodMs;
  }

  /** Sends requests for `ms` milliseconds. `answered` resolves when all of them have been answered. */
  async run(
    perSecond: number,
    ms: number,
    tally: Tally,
    signal: AbortSignal,
  ): Promise<{ readonly answered: Promise<unknown> }> {
    const calls: Promise<void>[] = [];
    const started = performance.now();
    let due = started + gap(perSecond);
    for (let now = started; now < started + ms && !signal.aborted; now = performance.now()) {
      for (; due <= now; due += gap(perSecond)) calls.push(this.#send(tally));
      await sleep(STEP_MS);
    }
    return { answered: Promise.all(calls) };
  }

  close(): void {
    this.#agent.destroy();
  }

  #send(tally: Tally): Promise<void> {
    tally.sent++;
    const started = performance.now();
    return new Promise((resolve) => {
      const call = request(this.#url, { agent: this.#agent }, (reply) => {
        reply.resume();
        reply.once("end", () => {
          this.#count(tally, reply.statusCode ?? 0, performance.now() - started);
          resolve();
        });
        reply.once("error", resolve);
      });
      call.once("error", () => {
        tally.failed++;
        resolve();
      });
      call.end();
    });
  }

  #count(tally: Tally, status: number, ms: number): void {
    if (status === 429) tally.refused++;
    else if (status !== 200) tally.failed++;
    else {
      tally.latencies.push(ms);
      if (ms <= this.#goodMs) tally.good++;
      else tally.late++;
    }
  }
}

/** Time to the next request of a Poisson process, in ms. */
function gap(perSecond: number): number {
  return (-Math.log(1 - Math.random()) * 1_000) / perSecond;
}
