// The gate of a quota scheduler: tokens of buckets. A bucket says when it will have enough.

import type { Decision, Grant } from "../flow.ts";
import type { SettlementRule } from "../rules.ts";
import { type Counted, CountedGate, isShort } from "./counted-gate.ts";
import type { Wait } from "./gate.ts";
import { Scheduler } from "./scheduler.ts";

/** Pause before a bucket is asked again that did not say when it will have enough, ms. */
const UNKNOWN_WAIT_MS = 10;

interface Buckets extends Counted {
  readonly settlement: SettlementRule | undefined;
  settle(grant: Grant, cost: number): void;
}

export class BucketGate extends CountedGate<Buckets> {
  get settlement(): SettlementRule | undefined {
    return this.limiter.settlement;
  }

  settle(grant: Grant, cost: number): void {
    this.limiter.settle(grant, cost);
  }

  retryIn(decision: Decision, { ticket, left }: Wait): number | undefined {
    if (!isShort(decision) || ticket.tokens > this.limiter.most) return undefined;
    const wait = decision.waitMs > 0 ? decision.waitMs : UNKNOWN_WAIT_MS;
    return wait > left ? undefined : wait;
  }
}

/** Tokens that come back when a flow ends let those that wait pass. */
export class BucketScheduler extends Scheduler<BucketGate> {
  get settlement(): SettlementRule | undefined {
    return this.gate.settlement;
  }

  /** A flow that is estimated to cost nothing may still cost something in the end. */
  protected override get freeOfCharge(): boolean {
    return this.settlement === undefined;
  }

  settle(grant: Grant, cost: number): void {
    this.gate.settle(grant, cost);
    if (cost < grant.amount) this.freed(grant);
  }
}
