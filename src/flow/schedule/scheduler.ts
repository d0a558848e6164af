// A scheduler: flows that its gate does not let through at once wait in a queue, by workload. The kinds differ only in what
// the gate counts: tokens of buckets, slots, or a share of the load.

import type { Component, Decision, Flow, Grant } from "../flow.ts";
import { Pending } from "../flow.ts";
import type { Labels } from "../label.ts";
import type { Limiter } from "../limit/limiter.ts";
import type { Observer } from "../observer.ts";
import type { LimiterNumbers, WorkloadDetail } from "../rules.ts";
import type { FlowJob, FrontEnd } from "./front-end.ts";
import type { Gate } from "./gate.ts";
import { QueuedFlow } from "./queue/flow-queue.ts";
import type { QueueSet } from "./queue/queue-set.ts";

export class Scheduler<G extends Gate = Gate> implements Limiter {
  readonly component: Component;
  readonly gate: G;
  readonly #frontEnd: FrontEnd;
  readonly #queues: QueueSet;
  readonly #observer: Observer;

  constructor(
    component: Component,
    frontEnd: FrontEnd,
    gate: G,
    queues: QueueSet,
    observer: Observer,
  ) {
    this.component = component;
    this.gate = gate;
    this.#frontEnd = frontEnd;
    this.#queues = queues;
    this.#observer = observer;
  }

  /** True if a flow that wants no tokens passes without asking the gate. */
  protected get freeOfCharge(): boolean {
    return true;
  }

  take(flow: Flow, labels: Labels, now: number): Decision | Pending<Decision> {
    const { gate } = this;
    const job = this.#frontEnd.jobOf(labels, flow.deadline, now, gate.estimates);
    if (job.lacksTokens) this.#observer.missingLabel(this.component, "tokens");
    gate.arrived?.(job, now);
    const key = gate.key(labels);
    if (key !== undefined && job.tokens === 0 && this.freeOfCharge) {
      const free = { ...gate.refusal(labels, job), outcome: "granted", dropped: false } as const;
      return this.#decided(free, job);
    }
    // A flow that arrives while others wait stands behind them.
    const first =
      key !== undefined && this.#queues.isQueuing(key) ? undefined : gate.take(labels, job, now);
    if (key !== undefined && this.#mayWait(first, labels, job, now)) {
      const size = flow.size ?? sizeOf(flow);
      const queue = this.#queues.queueFor(key, job, size);
      if (queue !== undefined)
        return queue.add(new QueuedFlow(queue, this, labels, job, size, now), first);
    }
    if (first instanceof Pending) return first.chain<Decision>((late) => this.#decided(late, job));
    return this.#decided(first ?? gate.refusal(labels, job), job);
  }

  undo(grant: Grant): void {
    this.gate.undo(grant);
    this.freed(grant);
  }

  /** Wakes the queue of the key, because tokens or a slot are free again. */
  protected freed(grant: Grant): void {
    this.#queues.wake(this.gate.keyOf(grant));
  }

  decide(numbers: LimiterNumbers | undefined): void {
    this.gate.decide(numbers);
    this.#queues.wakeAll();
  }

  showGauges(): void {
    this.gate.showGauges?.();
  }

  queued(): void {
    this.#observer.queued(this.component);
  }

  dequeued(
    { job: { workload, tokens }, since }: QueuedFlow,
    passed: boolean,
    now: number,
    preemption?: { readonly all: number; readonly workload: number | undefined },
  ): void {
    this.#observer.scheduled(this.component, {
      workload,
      tokens,
      passed,
      queued: true,
      waitedMs: Math.max(0, now - since),
      preempted: preemption?.all,
      preemptedInWorkload: preemption?.workload,
    });
  }

  /** True if a flow that did not pass at once may pass later. */
  #mayWait(
    first: ReturnType<Gate["take"]> | undefined,
    labels: Labels,
    job: FlowJob,
    now: number,
  ): boolean {
    const { patienceMs: leftMs } = job;
    if (leftMs <= 0) return false;
    if (first === undefined || first instanceof Pending) return true;
    const attempt = { labels, job, leftMs, number: 1, aheadMs: 0 };
    return this.gate.retryIn(first, attempt, now) !== undefined;
  }

  /** Reports a flow that was decided without a queue. */
  #decided(decision: Decision<WorkloadDetail>, job: FlowJob): Decision<WorkloadDetail> {
    const passed = !decision.dropped;
    // A flow without a priority was not scheduled: it lacks its key, or all flows pass.
    if (passed && decision.detail.priority === 0) return decision;
    const { workload, tokens } = job;
    this.#observer.scheduled(this.component, {
      workload,
      tokens,
      passed,
      queued: false,
      waitedMs: 0,
      preempted: undefined,
      preemptedInWorkload: undefined,
    });
    return decision;
  }
}

/** Estimates the bytes that a flow holds while it waits: text that is not ASCII takes twice as much. */
function sizeOf({ labels, http }: Flow): number {
  let size = http?.body.length ?? 0;
  labels.each((name, value) => {
    size += name.length + value.length;
  });
  return size;
}
