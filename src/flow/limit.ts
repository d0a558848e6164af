// What every limiter is to the check: something to ask, take from and give back to. Where its numbers
// live is its engine's business.

import type { Component, Decision, Flow, Grant, Pending } from "./flow.ts";
import type { Labels } from "./label.ts";
import type { LimiterNumbers } from "./rules.ts";

export interface Limiter {
  readonly component: Component;
  /** What a take would say now. Changes nothing. */
  peek(flow: Flow, labels: Labels): Decision;
  /** Asks and takes. Pending only where the engine is remote or the limiter queues. */
  take(flow: Flow, labels: Labels): Decision | Pending<Decision>;
  /** Gives back what a decision of this limiter took. */
  undo(grant: Grant): void;
  /** Ends one slot; false when it is unknown or expired. Limiters without slots are never asked. */
  end?(grant: Grant): boolean;
  /** New numbers, or undefined when the decision was removed (open again, unless documented otherwise). */
  decide(numbers: LimiterNumbers | undefined): void;
}
