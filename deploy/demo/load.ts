// Callers that do not wait for each other: requests come at random times at a given rate, however slow the
// answers are. And what came of them.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface Tally {
  sent: number;
  /** Answered well within the time that a caller is patient. */
  good: number;
  /** Answered well, but later. */
  late: number;
  /** 429: turned away by the policy. */
  refused: number;
  /** Anything else: the service gave up, or there was no answer. */
  failed: number;
  /** Of all that were answered well, ms, in the order of their answers. */
  readonly latencies: number[];
}

export const newTally = (): Tally => ({
  ...{ sent: 0, good: 0, late: 0, refused: 0, failed: 0 },
  latencies: [],
});

/** The `q`-th quantile, by nearest rank; undefined of nothing. */
export function quantile(q: number, values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

/** How often requests that fell due are looked for, ms. */
const STEP_MS = 5;

export class Load {
  readonly #url: string;
  readonly #patienceMs: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

  constructor(url: string, patienceMs: number) {
    this.#url = url;
    this.#patienceMs = patienceMs;
  }

  /** Asks so often for so long. `answered` is resolved when nobody waits any more. */
  async run(
    perSecond: number,
    ms: number,
    tally: Tally,
    signal: AbortSignal,
  ): Promise<{ readonly answered: Promise<unknown> }> {
    const asked: Promise<void>[] = [];
    const started = performance.now();
    let due = started + gap(perSecond);
    for (let now = started; now < started + ms && !signal.aborted; now = performance.now()) {
      for (; due <= now; due += gap(perSecond)) asked.push(this.#ask(tally));
      await sleep(STEP_MS);
    }
    return { answered: Promise.all(asked) };
  }

  close(): void {
    this.#agent.destroy();
  }

  #ask(tally: Tally): Promise<void> {
    tally.sent++;
    const started = performance.now();
    return new Promise((resolve) => {
      const asked = request(this.#url, { agent: this.#agent }, (reply) => {
        reply.resume();
        reply.once("end", () => {
          this.#count(tally, reply.statusCode ?? 0, performance.now() - started);
          resolve();
        });
        reply.once("error", resolve);
      });
      asked.once("error", () => {
        tally.failed++;
        resolve();
      });
      asked.end();
    });
  }

  #count(tally: Tally, status: number, ms: number): void {
    if (status === 429) tally.refused++;
    else if (status !== 200) tally.failed++;
    else {
      tally.latencies.push(ms);
      if (ms <= this.#patienceMs) tally.good++;
      else tally.late++;
    }
  }
}

/** Time to the next of requests that come independently, ms. */
function gap(perSecond: number): number {
  return (-Math.log(1 - Math.random()) * 1_000) / perSecond;
}
