// The queue of one key at a scheduler. The gate is asked only about the flow at the head, when it may pass; all others wait
// at no cost.

import type { Clock } from "#base/clock.ts";
import { type Decision, grantOf, Pending, Queued } from "../../flow.ts";
import type { Labels } from "../../label.ts";
import type { WorkloadDetail } from "../../rules.ts";
import type { FlowJob } from "../front-end.ts";
import type { Gate } from "../gate.ts";
import { type FairEntry, FairQueue, type Job } from "./fair-queue.ts";
import { OfferedLoad } from "./offered-load.ts";
import type { QueueCapacity } from "./queue-capacity.ts";
import { Timer, type Timers } from "./timers.ts";

export interface FlowQueueContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly capacity: QueueCapacity;
}

/** A flow is refused when its remaining time is less than this many times the latency of the last answer. */
const TOO_LATE = 2;

/** Bytes of the objects of one queued flow, measured, without the flow itself. */
const QUEUED_FLOW_SIZE = 1_024;

/** The scheduler whose flows are in a queue. */
interface QueueOwner {
  readonly gate: Gate;
  /** Called when a flow begins to wait. */
  queued(): void;
  /** Called when a flow no longer waits; `preemption` is undefined unless it passed in its turn. */
  dequeued(flow: QueuedFlow, passed: boolean, now: number, preemption?: Preemption): void;
}

/** Tokens of earlier flows that a flow overtook; negative, if later ones overtook it. */
interface Preemption {
  readonly all: number;
  /** Among the flows of its workload. Undefined unless it arrived behind another flow of its fairness label. */
  readonly workload: number | undefined;
}

type Answer = Decision<WorkloadDetail>;

/** One flow in a queue. */
export class QueuedFlow implements Job {
  readonly owner: QueueOwner;
  readonly labels: Labels;
  readonly job: FlowJob;
  readonly size: number;
  readonly since: number;
  /** When it is refused. */
  readonly until: number;
  readonly answer: Queued<Decision>;
  readonly timer: Timer;
  /** Undefined while it is asked about for the first time. */
  entry: FairEntry<QueuedFlow> | undefined;
  /** An answer about it that has not come yet. */
  pending: Pending<Answer> | undefined;
  attempts = 1;
  done = false;
  /** The last decision about it. */
  last: Answer | undefined;

  /** `size` is the number of bytes that the flow holds. */
  constructor(
    queue: FlowQueue,
    owner: QueueOwner,
    labels: Labels,
    job: FlowJob,
    size: number,
    now: number,
  ) {
    this.owner = owner;
    this.labels = labels;
    this.job = job;
    this.size = QUEUED_FLOW_SIZE + size;
    this.since = now;
    this.until = now + job.patienceMs;
    this.answer = new Queued(() => queue.leave(this));
    this.timer = new Timer(() => queue.expire(this));
  }

  get workload(): string {
    return this.job.workload;
  }

  get priority(): number {
    return this.job.priority;
  }

  get fairness(): string | undefined {
    return this.job.fairness;
  }

  get tokens(): number {
    return this.job.tokens;
  }
}

export class FlowQueue {
  readonly #context: FlowQueueContext;
  readonly #emptied: () => void;
  readonly #queue = new FairQueue<QueuedFlow>();
  readonly #retry = new Timer(() => this.wake());
  /** Flows in the queue, and those that are asked about before they enter it. */
  #flows = 0;
  /** Undefined where no other agent waits for the same tokens. */
  #load: OfferedLoad | undefined;
  /** The flow at the head was asked about and has to wait. */
  #blocked = false;
  #serving = false;
  /** The time that the last answer took, ms. */
  #answerMs = 0;

  /** `emptied` is called when the last flow has left. */
  constructor(context: FlowQueueContext, emptied: () => void) {
    this.#context = context;
    this.#emptied = emptied;
  }

  get size(): number {
    return this.#queue.size;
  }

  /** True if a flow may wait. Flows of one fairness label leave as much room as they take, so they keep out no others. */
  hasRoomFor(job: FlowJob, bytes: number): boolean {
    const { capacity } = this.#context;
    const size = QUEUED_FLOW_SIZE + bytes;
    return this.#queue.countLike(job) < capacity.free && capacity.hasRoomFor(size);
  }

  /** Adds a flow that was asked about once; `first` is the answer, undefined if the gate was not asked. */
  add(flow: QueuedFlow, first: Answer | Pending<Answer> | undefined): Queued<Decision> {
    const { owner, job, since } = flow;
    this.#flows += 1;
    if (owner.gate.pauseMs !== undefined) {
      this.#load ??= new OfferedLoad(since);
      this.#load.arrived(job, since);
    }
    this.#context.capacity.add(flow.size);
    owner.queued();
    this.#context.timers.set(flow.timer, flow.until);
    if (first instanceof Pending) this.#await(flow, first);
    else if (first === undefined) this.#enter(flow);
    else this.#decide(flow, first);
    return flow.answer;
  }

  /** Asks about the flow at the head now, because something may have become free. */
  wake(): void {
    this.#context.timers.cancel(this.#retry);
    this.#blocked = false;
    this.#serve();
  }

  /** The caller went away, or another limiter refused the flow. */
  leave(flow: QueuedFlow): void {
    if (!flow.done) this.#finish(flow, undecided(flow), undefined);
  }

  /** The time of a flow is over. */
  expire(flow: QueuedFlow): void {
    if (flow.done) return;
    const { owner, labels, job, last } = flow;
    this.#finish(flow, last ?? owner.gate.refusal(labels, job), undefined);
  }

  /** Lets all flows pass, because the scheduler is no longer in the plan. */
  close(): void {
    for (;;) {
      const entry = this.#queue.next();
      if (entry === undefined) break;
      // No flow is served while they leave one after the other.
      this.#serving = true;
      this.leave(entry.job);
    }
    this.#serving = false;
  }

  #serve(): void {
    if (this.#serving) return;
    this.#serving = true;
    while (!this.#blocked) {
      const flow = this.#queue.next()?.job;
      if (flow === undefined || flow.pending !== undefined) break;
      if (this.#isTooLate(flow)) this.expire(flow);
      else this.#ask(flow);
    }
    this.#serving = false;
  }

  /** True if the time of a flow would probably be over before the answer about it comes. */
  #isTooLate({ until }: QueuedFlow): boolean {
    return this.#answerMs > 0 && until - this.#context.clock.now() < TOO_LATE * this.#answerMs;
  }

  #ask(flow: QueuedFlow): void {
    const { owner, labels, job } = flow;
    flow.attempts += 1;
    try {
      const head = { behind: this.#queue.tokens - job.tokens, aheadMs: this.#answerMs };
      const answer = owner.gate.take(labels, job, this.#context.clock.now(), head);
      if (answer instanceof Pending) this.#await(flow, answer);
      else this.#decide(flow, answer);
    } catch (thrown) {
      this.#fail(flow, thrown);
    }
  }

  #await(flow: QueuedFlow, answer: Pending<Answer>): void {
    const { clock } = this.#context;
    const askedAt = clock.now();
    flow.pending = answer;
    answer.whenSettled(
      (decision) => {
        flow.pending = undefined;
        if (flow.done) {
          const grant = grantOf(decision);
          if (grant !== undefined) flow.owner.gate.undo(grant);
          return;
        }
        this.#answerMs = clock.now() - askedAt;
        this.#decide(flow, decision);
        this.#serve();
      },
      (thrown) => {
        flow.pending = undefined;
        this.#fail(flow, thrown);
      },
    );
  }

  /** Settles a flow that was asked about, or lets it wait. */
  #decide(flow: QueuedFlow, decision: Answer): void {
    const { labels, job, attempts } = flow;
    const now = this.#context.clock.now();
    const leftMs = flow.until - now;
    const attempt = { labels, job, leftMs, number: attempts, aheadMs: this.#answerMs };
    const retryMs = flow.owner.gate.retryIn(decision, attempt, now);
    if (retryMs === undefined) {
      this.#finish(flow, decision, decision);
      return;
    }
    flow.last = decision;
    if (flow.entry === undefined) this.#enter(flow);
    if (this.#queue.next() !== flow.entry) return;
    this.#blocked = true;
    if (retryMs === Number.POSITIVE_INFINITY) return;
    this.#context.timers.set(this.#retry, now + retryMs + this.#pauseMs(flow, now));
  }

  #pauseMs(flow: QueuedFlow, now: number): number {
    if (this.#load === undefined) return 0;
    return flow.owner.gate.pauseMs?.(this.#load, flow.job, now) ?? 0;
  }

  /**
   * The flow at the head has left. The next one is asked about at once. Where other agents wait for the same tokens, it
   * takes over the rest of the pause instead, so that a queue in which many flows give up does not ask more often.
   */
  #headLeft(passed: boolean, tokens: number): void {
    const { clock, timers } = this.#context;
    const next = passed || !this.#retry.isSet ? undefined : this.#queue.next()?.job;
    if (next === undefined || this.#load === undefined) {
      timers.cancel(this.#retry);
      this.#blocked = false;
    } else if (next.tokens < tokens) {
      const now = clock.now();
      timers.set(this.#retry, Math.min(this.#retry.at, now + this.#pauseMs(next, now)));
    }
  }

  #enter(flow: QueuedFlow): void {
    flow.entry = this.#queue.push(flow);
  }

  #fail(flow: QueuedFlow, thrown: unknown): void {
    if (flow.done) return;
    this.#remove(flow, false);
    flow.answer.fail(thrown);
    this.#serve();
  }

  /** `answer` is that of the gate, if the gate decided. */
  #finish(flow: QueuedFlow, decision: Decision, answer: Answer | undefined): void {
    const passed = answer !== undefined && !answer.dropped;
    const preemption = this.#remove(flow, passed);
    flow.owner.dequeued(flow, passed, this.#context.clock.now(), preemption);
    flow.answer.settle(decision);
    this.#serve();
  }

  /** Removes a flow from the queue; one that `passed` is charged to its workload. */
  #remove(flow: QueuedFlow, passed: boolean): Preemption | undefined {
    const { entry, pending } = flow;
    const queue = this.#queue;
    flow.done = true;
    this.#flows -= 1;
    this.#context.timers.cancel(flow.timer);
    this.#context.capacity.remove(flow.size);
    flow.pending = undefined;
    let preemption: Preemption | undefined;
    if (entry !== undefined) {
      const wasHead = queue.next() === entry;
      if (passed) {
        const workload = entry.behind ? queue.preempted(entry, "workload") : undefined;
        preemption = { all: queue.preempted(entry, "all"), workload };
        queue.admit();
      } else queue.remove(entry);
      if (wasHead) this.#headLeft(passed, flow.tokens);
    }
    if (this.#flows === 0) this.#emptied();
    pending?.cancel();
    return preemption;
  }
}

/** The decision about a flow that left before the gate decided: it is not refused, and has taken nothing. */
function undecided({ owner, labels, job }: QueuedFlow): Decision {
  return { ...owner.gate.refusal(labels, job), outcome: "granted", dropped: false };
}
