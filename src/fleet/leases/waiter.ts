// Flows that wait for the home: they travel together, and each gets its own answer.

import type { BucketReply, Run } from "#flow/counters/bucket-home.ts";
import { type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";

/** Most runs in one request: bounds the time that the home spends on it. */
const MAX_RUNS = 64;

export class Waiter {
  readonly want: number;
  readonly pending: Pending<EngineAnswer>;
  /** Set once it is answered. */
  answer: EngineAnswer | undefined;

  constructor(want: number) {
    this.want = want;
    this.pending = new Pending(() => this.settle(UNDECIDED));
  }

  settle(answer: EngineAnswer): void {
    if (this.answer !== undefined) return;
    this.answer = answer;
    this.pending.settle(answer);
  }
}

/** Flows that travel together. */
export interface Batch {
  readonly waiters: readonly Waiter[];
  readonly runs: readonly Run[];
}

/** The flows that still wait, as far as one request has room for them. Removes them from the queue. */
export function batchOf(queue: Waiter[]): Batch {
  const waiters: Waiter[] = [];
  const runs: { want: number; times: number }[] = [];
  let taken = 0;
  for (const waiter of queue) {
    if (waiter.answer === undefined) {
      const last = runs.at(-1);
      if (last?.want === waiter.want) last.times += 1;
      else if (runs.length < MAX_RUNS) runs.push({ want: waiter.want, times: 1 });
      else break;
      waiters.push(waiter);
    }
    taken += 1;
  }
  queue.splice(0, taken);
  return { waiters, runs };
}

/** Calls back for each flow whether it was granted. */
export function deliver(
  { waiters, runs }: Batch,
  { granted }: BucketReply,
  each: (waiter: Waiter, granted: boolean) => void,
): void {
  let at = 0;
  for (const [index, { times }] of runs.entries()) {
    const count = granted[index] ?? 0;
    for (let n = 0; n < times; n++) {
      const waiter = waiters[at++];
      if (waiter !== undefined) each(waiter, n < count);
    }
  }
}

/** Tokens that a reply granted. */
export function tokensOf({ runs }: Batch, { granted }: BucketReply): number {
  return runs.reduce((sum, { want }, index) => sum + want * (granted[index] ?? 0), 0);
}
