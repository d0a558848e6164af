// A weighted fair queue: it chooses the job that is served next. Workloads are served in proportion to their priorities,
// and the flows of a workload (its fairness labels) in equal parts. A job is due at the virtual time at which it would be
// finished if all flows were served at once: the finish time of the flow's last job, or the queue's virtual time for a new
// flow, plus the job's own cost. Jobs of one flow keep their order.

import { Heap, type HeapItem } from "./heap.ts";

/** The properties by which the queue orders a job. */
export interface Job {
  readonly workload: string;
  /** Above 0. */
  readonly priority: number;
  /** Value of the fairness label; undefined without one. */
  readonly fairness: string | undefined;
  /** Above 0. */
  readonly tokens: number;
}

/** A job in the queue. */
export class FairEntry<J extends Job> {
  readonly job: J;
  /** Undefined once the job has left the queue. */
  flow: FairFlow<J> | undefined;
  next: FairEntry<J> | undefined;
  previous: FairEntry<J> | undefined;
  /** Number of the arrival. */
  readonly arrival: number;
  /** Tokens that were queued, and had been admitted, when it arrived: of all workloads, and of its own. */
  readonly queuedBefore: number;
  readonly admittedBefore: number;
  readonly queuedInWorkload: number;
  readonly admittedInWorkload: number;
  /** It arrived behind another job of its flow. */
  readonly behind: boolean;

  constructor(job: J, flow: FairFlow<J>, arrival: number, all: FairCount, workload: FairCount) {
    this.job = job;
    this.flow = flow;
    this.arrival = arrival;
    this.queuedBefore = all.queued;
    this.admittedBefore = all.admitted;
    this.queuedInWorkload = workload.queued;
    this.admittedInWorkload = workload.admitted;
    this.behind = flow.count > 0;
  }
}

/** Tokens of jobs that wait, and of those that were admitted. */
interface FairCount {
  queued: number;
  admitted: number;
}

interface FairWorkload<J extends Job> extends FairCount {
  readonly key: string;
  readonly flows: Map<string | undefined, FairFlow<J>>;
}

/** The jobs of one fairness label of one workload, in order of arrival. The heap orders flows by their first jobs. */
class FairFlow<J extends Job> implements HeapItem {
  heapIndex = -1;
  readonly key: string | undefined;
  readonly workload: FairWorkload<J>;
  readonly share: number;
  first: FairEntry<J> | undefined;
  last: FairEntry<J> | undefined;
  /** Jobs that wait, the one at the head of the queue included. */
  count = 0;
  /** Virtual time up to which it has been served. */
  served: number;
  /** Virtual time at which the first job is due. */
  due = 0;

  constructor(key: string | undefined, workload: FairWorkload<J>, share: number, served: number) {
    this.key = key;
    this.workload = workload;
    this.share = share;
    this.served = served;
  }
}

export class FairQueue<J extends Job> {
  /** Jobs that wait, the one at the head included. */
  size = 0;
  readonly #all: FairCount = { queued: 0, admitted: 0 };
  readonly #workloads = new Map<string, FairWorkload<J>>();
  readonly #heap = new Heap<FairFlow<J>>(isDueBefore);
  /** The job at the head. It stays there whatever arrives meanwhile, and its flow is not in the heap. */
  #head: FairEntry<J> | undefined;
  #time = 0;
  #arrivals = 0;

  /** Tokens of the jobs that wait. */
  get tokens(): number {
    return this.#all.queued;
  }

  /** Number of flows that have jobs. */
  get flows(): number {
    let flows = 0;
    for (const workload of this.#workloads.values()) flows += workload.flows.size;
    return flows;
  }

  /** Number of jobs that wait in the flow to which this one would belong. */
  countLike(job: Job): number {
    return this.#workloads.get(keyOf(job))?.flows.get(job.fairness)?.count ?? 0;
  }

  push(job: J): FairEntry<J> {
    const key = keyOf(job);
    let workload = this.#workloads.get(key);
    if (workload === undefined) {
      workload = { key, flows: new Map(), queued: 0, admitted: 0 };
      this.#workloads.set(key, workload);
    }
    let flow = workload.flows.get(job.fairness);
    if (flow === undefined) {
      flow = new FairFlow(job.fairness, workload, 1 / job.priority, this.#time);
      workload.flows.set(job.fairness, flow);
    }
    const entry = new FairEntry(job, flow, this.#arrivals++, this.#all, workload);
    this.#append(flow, entry);
    return entry;
  }

  /** The job at the head, which is the one that is due first. It stays at the head until it is admitted or leaves. */
  next(): FairEntry<J> | undefined {
    if (this.#head !== undefined) return this.#head;
    const flow = this.#heap.first;
    if (flow === undefined) return undefined;
    this.#heap.remove(flow);
    this.#head = flow.first;
    return this.#head;
  }

  /**
   * The tokens of earlier jobs that this one overtakes if it is admitted now; negative, if later ones overtook it. Of all
   * workloads, or of its own.
   */
  preempted(entry: FairEntry<J>, of: "all" | "workload"): number {
    const { flow } = entry;
    if (flow === undefined) return 0;
    return of === "all"
      ? entry.queuedBefore - (this.#all.admitted - entry.admittedBefore)
      : entry.queuedInWorkload - (flow.workload.admitted - entry.admittedInWorkload);
  }

  /** Serves the job at the head. */
  admit(): void {
    const entry = this.#head;
    const flow = entry?.flow;
    if (entry === undefined || flow === undefined) return;
    const { tokens } = entry.job;
    this.#head = undefined;
    flow.served = flow.due;
    // A job may be due in the past, when a dearer one before it has left.
    this.#time = Math.max(this.#time, flow.due);
    this.#all.admitted += tokens;
    flow.workload.admitted += tokens;
    this.#unlink(flow, entry);
    this.#enter(flow);
  }

  /** Removes a job, wherever it is. Its flow is not charged for it. */
  remove(entry: FairEntry<J>): void {
    const { flow } = entry;
    if (flow === undefined) return;
    if (entry === this.#head) this.#head = undefined;
    const wasFirst = flow.first === entry;
    this.#unlink(flow, entry);
    if (!wasFirst) return;
    this.#heap.remove(flow);
    this.#enter(flow);
  }

  #append(flow: FairFlow<J>, entry: FairEntry<J>): void {
    const { tokens } = entry.job;
    entry.previous = flow.last;
    if (flow.last !== undefined) flow.last.next = entry;
    flow.last = entry;
    flow.count += 1;
    this.size += 1;
    this.#all.queued += tokens;
    flow.workload.queued += tokens;
    if (flow.first !== undefined) return;
    flow.first = entry;
    this.#enter(flow);
  }

  #unlink(flow: FairFlow<J>, entry: FairEntry<J>): void {
    const { next, previous, job } = entry;
    if (previous === undefined) flow.first = next;
    else previous.next = next;
    if (next === undefined) flow.last = previous;
    else next.previous = previous;
    entry.next = undefined;
    entry.previous = undefined;
    entry.flow = undefined;
    flow.count -= 1;
    this.size -= 1;
    // Sums of fractions are not exact, and their errors must not add up.
    this.#all.queued = this.size === 0 ? 0 : this.#all.queued - job.tokens;
    flow.workload.queued -= job.tokens;
  }

  /** Puts a flow into the heap by its first job, or forgets it if it has none. */
  #enter(flow: FairFlow<J>): void {
    const { workload, first } = flow;
    if (first === undefined) {
      workload.flows.delete(flow.key);
      if (workload.flows.size === 0) this.#workloads.delete(workload.key);
      return;
    }
    // The flows of a workload share its service, so each of them advances more slowly.
    flow.due = flow.served + first.job.tokens * flow.share * workload.flows.size;
    this.#heap.push(flow);
  }
}

/** Jobs of one workload with another priority (`priority_label_key`) are a workload of their own. */
function keyOf({ workload, priority }: Job): string {
  return `${priority} ${workload}`;
}

function isDueBefore<J extends Job>(a: FairFlow<J>, b: FairFlow<J>): boolean {
  if (a.due !== b.due) return a.due < b.due;
  return (a.first?.arrival ?? 0) < (b.first?.arrival ?? 0);
}
