// The gate of a concurrency scheduler: slots, which become free when a flow ends or its slot expires.

import { type Decision, type Grant, Pending } from "../flow.ts";
import { type Counted, CountedGate, isShort } from "./counted-gate.ts";
import type { Wait } from "./gate.ts";
import { Scheduler } from "./scheduler.ts";

/** First and longest pause before slots that agents share are asked for again, ms: nobody says when one is free. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

interface Slots extends Counted {
  nextExpiry(value: string | undefined): number | undefined;
  end(grant: Grant): boolean | Pending<boolean>;
}

export class SlotGate extends CountedGate<Slots> {
  retryIn(decision: Decision, { labels, attempts }: Wait, now: number): number | undefined {
    if (!isShort(decision) || this.limiter.most <= 0) return undefined;
    const expiry = this.limiter.nextExpiry(this.valueOf(labels));
    if (expiry !== undefined) return Math.max(0, expiry - now);
    return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(10, attempts - 1));
  }

  end(grant: Grant): boolean | Pending<boolean> {
    return this.limiter.end(grant);
  }
}

/** Ends of flows let those that wait pass, wherever they end. */
export class ConcurrencyScheduler extends Scheduler<SlotGate> {
  end(grant: Grant): boolean | Pending<boolean> {
    const ended = this.gate.end(grant);
    if (ended instanceof Pending) {
      return ended.chain((known) => {
        this.freed(grant);
        return known;
      });
    }
    this.freed(grant);
    return ended;
  }
}
