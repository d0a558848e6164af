// Takes that wait for the owner of a bucket. One request carries many of them, and each gets an answer of its own.

import { type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { BucketReply, Run } from "./bucket-owner.ts";

/** Most runs in one request. Bounds the time that the owner spends on it. */
const MAX_RUNS = 64;
/** Most takes that are prefetched for queued flows: callers can request any number of tokens, but messages carry 32 bits. */
const MAX_PREFETCHED = 65_536;

export class WaitingTake {
  readonly want: number;
  /** Tokens that queued flows want as soon as this one is granted. */
  readonly behind: number;
  readonly pending: Pending<EngineAnswer>;
  /** Set once. */
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

/** The takes of one request. */
export interface TakeBatch {
  readonly takes: readonly WaitingTake[];
  /** The runs of the takes, and one more if `prefetches` is set. */
  readonly runs: readonly Run[];
  /** The last run is for flows that are queued behind the takes. */
  readonly prefetches: boolean;
}

/** Removes from the queue as many takes as fit into one request. Cancelled takes are dropped. */
export function batchOf(queue: WaitingTake[]): TakeBatch {
  const takes: WaitingTake[] = [];
  const runs: { want: number; times: number }[] = [];
  let taken = 0;
  let prefetched: Run | undefined;
  for (const take of queue) {
    if (take.answer === undefined) {
      const { want, behind } = take;
      const last = runs.at(-1);
      if (last?.want === want) last.times += 1;
      else if (runs.length < MAX_RUNS) runs.push({ want, times: 1 });
      else break;
      if (want > 0 && behind >= want) {
        prefetched = { want, times: Math.min(MAX_PREFETCHED, Math.floor(behind / want)) };
      }
      takes.push(take);
    }
    taken += 1;
  }
  queue.splice(0, taken);
  if (prefetched !== undefined) runs.push(prefetched);
  return { takes, runs, prefetches: prefetched !== undefined };
}

/** Calls back for each take whether it was granted. */
export function deliver(
  { takes, runs }: TakeBatch,
  { granted }: BucketReply,
  each: (take: WaitingTake, granted: boolean) => void,
): void {
  let index = 0;
  let answered = 0;
  for (const take of takes) {
    if (answered === runs[index]?.times) {
      index += 1;
      answered = 0;
    }
    each(take, answered < (granted[index] ?? 0));
    answered += 1;
  }
}

/** Tokens that a reply granted to queued flows in advance, and whether it granted fewer than were wanted. */
export function prefetchedBy({ runs, prefetches }: TakeBatch, { granted }: BucketReply) {
  const last = prefetches ? runs.at(-1) : undefined;
  if (last === undefined) return { tokens: 0, short: false };
  const times = granted[runs.length - 1] ?? 0;
  return { tokens: last.want * times, short: times < last.times };
}

/** Tokens that a reply granted. */
export function tokensOf({ runs }: TakeBatch, { granted }: BucketReply): number {
  return runs.reduce((sum, { want }, index) => sum + want * (granted[index] ?? 0), 0);
}
