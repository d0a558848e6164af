// The gate of a quota scheduler: tokens of buckets. A bucket says when it will have enough.

import type { Decision } from "../flow.ts";
import { type Counted, CountedGate, isShort } from "./counted-gate.ts";
import type { Wait } from "./gate.ts";

/** Pause before a bucket is asked again that did not say when it will have enough, ms. */
const UNKNOWN_WAIT_MS = 10;

export class BucketGate extends CountedGate<Counted> {
  retryIn(decision: Decision, { ticket, left }: Wait): number | undefined {
    if (!isShort(decision) || ticket.tokens > this.limiter.most) return undefined;
    const wait = decision.waitMs > 0 ? decision.waitMs : UNKNOWN_WAIT_MS;
    return wait > left ? undefined : wait;
  }
}
