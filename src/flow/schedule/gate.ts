// The gate behind a queue: it grants tokens or slots, or says when a flow should ask again.

import type { Decision, Grant, InQueue, Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { LimiterNumbers, WorkloadDetail } from "../rules.ts";
import type { Estimates, FlowJob } from "./front-end.ts";
import type { OfferedLoad } from "./queue/offered-load.ts";

/** One question about a flow. */
export interface Attempt {
  readonly labels: Labels;
  readonly job: FlowJob;
  /** Milliseconds for which the flow can still wait. */
  readonly leftMs: number;
  /** 1 for the first question about the flow. */
  readonly number: number;
  /**
   * How early the gate may be asked, ms: as long as the last answer about a flow of this queue took; 0 while all answers
   * come at once.
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
  /** Called when a flow arrives, before the first question about it. */
  arrived?(job: FlowJob, now: number): void;
  /** `head` is undefined for a flow that is not queued yet. */
  take(
    labels: Labels,
    job: FlowJob,
    now: number,
    head?: InQueue,
  ): Decision<WorkloadDetail> | Pending<Decision<WorkloadDetail>>;
  /**
   * Milliseconds until the flow that got this decision should be asked about again; Infinity: only when something changes.
   * Undefined when the decision is final: the flow passed, or will not pass in its time.
   */
  retryIn(decision: Decision, attempt: Attempt, now: number): number | undefined;
  /**
   * Milliseconds, drawn by chance, for which the queue lets the queues of other agents go first. Absent, or 0, where no
   * other agent waits for the same tokens.
   */
  pauseMs?(load: OfferedLoad, job: FlowJob, now: number): number;
  /** The decision about a flow that is refused without a question. */
  refusal(labels: Labels, job: FlowJob): Decision<WorkloadDetail>;
  undo(grant: Grant): boolean | Pending<boolean>;
  decide(numbers: LimiterNumbers | undefined): void;
  showGauges?(): void;
}
