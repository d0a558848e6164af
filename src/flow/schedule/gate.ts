// The gate behind a queue: it grants tokens or slots, or says that a flow should ask again.

import type { Decision, Grant, InQueue, Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { LimiterNumbers, WorkloadDetail } from "../rules.ts";
import type { Estimates, Ticket } from "./front-end.ts";
import type { Pressure } from "./queue/pressure.ts";

/** A flow that was asked about. */
export interface Wait {
  readonly labels: Labels;
  readonly ticket: Ticket;
  /** Milliseconds for which it can wait. */
  readonly left: number;
  /** Number of times that the gate was asked about the flow. */
  readonly attempts: number;
  /**
   * Milliseconds by which the gate may be asked ahead of time: those that the last answer about a flow of this queue took;
   * 0 while all answers were there at once.
   */
  readonly aheadMs: number;
}

export interface Gate {
  /** Flows with equal keys share a queue. Undefined for a flow without a key, which is decided at once. */
  key(labels: Labels): string | undefined;
  /** The key of the flow that took something. */
  keyOf(grant: Grant): string;
  /** Mean tokens of the flows of each workload. */
  readonly estimates: Estimates;
  /** A flow has arrived. It is asked about next, once or more often. */
  arrived?(ticket: Ticket, now: number): void;
  /** `queued` is undefined for a flow that does not wait yet. */
  take(
    labels: Labels,
    ticket: Ticket,
    now: number,
    queued?: InQueue,
  ): Decision<WorkloadDetail> | Pending<Decision<WorkloadDetail>>;
  peek(labels: Labels, ticket: Ticket, now: number): Decision<WorkloadDetail>;
  /**
   * After how many milliseconds the flow that got this decision should be asked about again; Infinity if not before
   * something changes. Undefined when waiting is of no use: it was let through, or will not be in its time.
   */
  retryIn(decision: Decision, wait: Wait, now: number): number | undefined;
  /**
   * Milliseconds, drawn by chance, for which the queue leaves what becomes free to the queues of other agents before it
   * asks for the flow. Absent, or 0, where no others wait for it.
   */
  pauseMs?(pressure: Pressure, ticket: Ticket, now: number): number;
  /** The decision about a flow that is not asked about. */
  refusal(labels: Labels, ticket: Ticket): Decision<WorkloadDetail>;
  undo(grant: Grant): boolean | Pending<boolean>;
  decide(numbers: LimiterNumbers | undefined): void;
  showGauges?(): void;
}
