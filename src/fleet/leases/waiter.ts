// Flows that wait for the home: they travel together, and each gets its own answer.

import type { BucketReply, Run } from "#flow/counters/bucket-home.ts";
import { type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";

/** Most runs in one request: bounds the time that the home spends on it. */
const MAX_RUNS = 64;
/** Most amounts in the run for the flows behind: callers may name any number of tokens, and messages carry 32 bits. */
const MAX_BROUGHT = 65_536;

export class Waiter {
  readonly want: number;
  /** Tokens that are wanted as soon as this flow is granted. */
  readonly behind: number;
  readonly pending: Pending<EngineAnswer>;
  /** Set once it is answered. */
  answer: EngineAnswer | undefined;

  constructor(want: number, behind = 0) {
    this.want = want;
    this.behind = behind;
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
  /** Those of the waiters, and one more where `brings` is set. */
  readonly runs: readonly Run[];
  /** The last run is wanted for the flows behind the waiters. */
  readonly brings: boolean;
}

/** The flows that still wait, as far as one request has room for them. Removes them from the queue. */
export function batchOf(queue: Waiter[]): Batch {
  const waiters: Waiter[] = [];
  const runs: { want: number; times: number }[] = [];
  let taken = 0;
  let brought: Run | undefined;
  for (const waiter of queue) {
    if (waiter.answer === undefined) {
      const { want, behind } = waiter;
      const last = runs.at(-1);
      if (last?.want === want) last.times += 1;
      else if (runs.length < MAX_RUNS) runs.push({ want, times: 1 });
      else break;
      if (want > 0 && behind >= want) {
        brought = { want, times: Math.min(MAX_BROUGHT, Math.floor(behind / want)) };
      }
      waiters.push(waiter);
    }
    taken += 1;
  }
  queue.splice(0, taken);
  if (brought !== undefined) runs.push(brought);
  return { waiters, runs, brings: brought !== undefined };
}

/** Calls back for each flow whether it was granted. */
export function deliver(
  { waiters, runs }: Batch,
  { granted }: BucketReply,
  each: (waiter: Waiter, granted: boolean) => void,
): void {
  let index = 0;
  let answered = 0;
  for (const waiter of waiters) {
    if (answered === runs[index]?.times) {
      index += 1;
      answered = 0;
    }
    each(waiter, answered < (granted[index] ?? 0));
    answered += 1;
  }
}

/** Tokens that a reply granted to the flows behind the waiters, and whether it granted all. */
export function broughtBy({ runs, brings }: Batch, { granted }: BucketReply) {
  const last = brings ? runs.at(-1) : undefined;
  if (last === undefined) return { tokens: 0, short: false };
  const times = granted[runs.length - 1] ?? 0;
  return { tokens: last.want * times, short: times < last.times };
}

/** Tokens that a reply granted. */
export function tokensOf({ runs }: Batch, { granted }: BucketReply): number {
  return runs.reduce((sum, { want }, index) => sum + want * (granted[index] ?? 0), 0);
}
