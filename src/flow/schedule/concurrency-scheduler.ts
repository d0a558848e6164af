// The gate of a concurrency scheduler: slots, which become free when a flow ends or its slot expires.

import { type Decision, type Grant, Pending } from "../flow.ts";
import { CountedGate, type CountedLimiter, isShort } from "./counted-gate.ts";
import type { Attempt } from "./gate.ts";
import { Scheduler } from "./scheduler.ts";

/** First and longest pause between requests for shared slots, ms, because agents are not told when one is free. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

interface SlotCounter extends CountedLimiter {
  nextExpiry(value: string | undefined): number | undefined;
  end(grant: Grant): boolean | Pending<boolean>;
}

export class SlotGate extends CountedGate<SlotCounter> {
  retryIn(decision: Decision, { labels, number }: Attempt, now: number): number | undefined {
    if (!isShort(decision) || this.limiter.maxTokens <= 0) return undefined;
    const expiry = this.limiter.nextExpiry(this.valueOf(labels));
    if (expiry !== undefined) return Math.max(0, expiry - now);
    return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(10, number - 1));
  }

  end(grant: Grant): boolean | Pending<boolean> {
    return this.limiter.end(grant);
  }
}

/** The end of a flow wakes the queue of its key. */
export class ConcurrencyScheduler extends Scheduler<SlotGate> {
  end(grant: Grant): boolean | Pending<boolean> {
    const freed = (known: boolean): boolean => {
      this.freed(grant);
      return known;
    };
    const ended = this.gate.end(grant);
    return ended instanceof Pending ? ended.chain(freed) : freed(ended);
  }
}
