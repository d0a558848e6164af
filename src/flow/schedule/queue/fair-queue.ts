// The weighted fair queue: which of the waiting requests is served next. Each workload is served in proportion to its
// priority, and the flows of one workload (its fairness labels) in equal parts. A request is due at the virtual time at
// which it would be done if all flows were served at once: the finish time of the flow's last request, or the queue's
// virtual time for a new flow, and the request's own cost. Requests of one flow keep their order.

import { Heap, type HeapItem } from "./heap.ts";

/** The properties of a request by which the queue orders it. */
export interface FairRequest {
  readonly workload: string;
  /** Above 0. */
  readonly priority: number;
  /** Value of the fairness label; undefined without one. */
  readonly fairness: string | undefined;
  /** Above 0. */
  readonly tokens: number;
}

/** A place in the queue. */
export class FairPlace<Request extends FairRequest> {
  readonly request: Request;
  /** Undefined once the request has left the queue. */
  flow: FairFlow<Request> | undefined;
  next: FairPlace<Request> | undefined;
  previous: FairPlace<Request> | undefined;
  /** Number of the arrival. */
  readonly arrival: number;
  /** Tokens that were queued when it arrived, and those admitted by then: of all workloads, and of its own. */
  readonly queuedBefore: number;
  readonly admittedBefore: number;
  readonly queuedAlike: number;
  readonly admittedAlike: number;
  /** It arrived behind another request of its flow. */
  readonly behind: boolean;

  constructor(
    request: Request,
    flow: FairFlow<Request>,
    arrival: number,
    all: FairCount,
    alike: FairCount,
  ) {
    this.request = request;
    this.flow = flow;
    this.arrival = arrival;
    this.queuedBefore = all.queued;
    this.admittedBefore = all.admitted;
    this.queuedAlike = alike.queued;
    this.admittedAlike = alike.admitted;
    this.behind = flow.count > 0;
  }
}

/** Tokens of requests that wait, and of those that were admitted. */
interface FairCount {
  queued: number;
  admitted: number;
}

interface FairWorkload<Request extends FairRequest> extends FairCount {
  readonly key: string;
  readonly flows: Map<string | undefined, FairFlow<Request>>;
}

/** The requests of one fairness label of one workload, first come, first served. In the heap by its first request. */
class FairFlow<Request extends FairRequest> implements HeapItem {
  place = -1;
  readonly key: string | undefined;
  readonly workload: FairWorkload<Request>;
  readonly share: number;
  first: FairPlace<Request> | undefined;
  last: FairPlace<Request> | undefined;
  /** Requests that wait, the one in its turn included. */
  count = 0;
  /** Virtual time up to which it has been served. */
  served: number;
  /** Virtual time at which the first request is due. */
  due = 0;

  constructor(
    key: string | undefined,
    workload: FairWorkload<Request>,
    share: number,
    served: number,
  ) {
    this.key = key;
    this.workload = workload;
    this.share = share;
    this.served = served;
  }
}

export class FairQueue<Request extends FairRequest> {
  /** Requests that wait, the one in its turn included. */
  size = 0;
  readonly #all: FairCount = { queued: 0, admitted: 0 };
  readonly #workloads = new Map<string, FairWorkload<Request>>();
  readonly #heap = new Heap<FairFlow<Request>>(isDueBefore);
  /** The request whose turn it is: it keeps its turn whatever arrives meanwhile, and its flow is in no heap. */
  #turn: FairPlace<Request> | undefined;
  #time = 0;
  #arrivals = 0;

  /** Tokens of the requests that wait. */
  get tokens(): number {
    return this.#all.queued;
  }

  /** Flows with requests. */
  get flows(): number {
    let flows = 0;
    for (const workload of this.#workloads.values()) flows += workload.flows.size;
    return flows;
  }

  /** Requests of the same flow that wait. */
  alike(request: FairRequest): number {
    const workload = this.#workloads.get(keyOf(request));
    return workload?.flows.get(request.fairness)?.count ?? 0;
  }

  push(request: Request): FairPlace<Request> {
    const key = keyOf(request);
    let workload = this.#workloads.get(key);
    if (workload === undefined) {
      workload = { key, flows: new Map(), queued: 0, admitted: 0 };
      this.#workloads.set(key, workload);
    }
    let flow = workload.flows.get(request.fairness);
    if (flow === undefined) {
      flow = new FairFlow(request.fairness, workload, 1 / request.priority, this.#time);
      workload.flows.set(request.fairness, flow);
    }
    const place = new FairPlace(request, flow, this.#arrivals++, this.#all, workload);
    this.#append(flow, place);
    return place;
  }

  /** The request whose turn it is: the one that is due first. It stays in its turn until it is admitted or leaves. */
  next(): FairPlace<Request> | undefined {
    if (this.#turn !== undefined) return this.#turn;
    const flow = this.#heap.first;
    if (flow === undefined) return undefined;
    this.#heap.remove(flow);
    this.#turn = flow.first;
    return this.#turn;
  }

  /**
   * The tokens of requests that arrived before this one and that it overtakes if it is admitted now; negative, if later
   * ones overtook it. Of all workloads, or of its own.
   */
  overtaken(place: FairPlace<Request>, of: "all" | "alike"): number {
    const { flow } = place;
    if (flow === undefined) return 0;
    return of === "all"
      ? place.queuedBefore - (this.#all.admitted - place.admittedBefore)
      : place.queuedAlike - (flow.workload.admitted - place.admittedAlike);
  }

  /** Ends the turn of the request whose turn it is: it is served. */
  admit(): void {
    const place = this.#turn;
    const flow = place?.flow;
    if (place === undefined || flow === undefined) return;
    const { tokens } = place.request;
    this.#turn = undefined;
    flow.served = flow.due;
    // A request may be due in the past, when a dearer one before it has left.
    this.#time = Math.max(this.#time, flow.due);
    this.#all.admitted += tokens;
    flow.workload.admitted += tokens;
    this.#unlink(flow, place);
    this.#enter(flow);
  }

  /** Takes a request out, wherever it is. Its flow is not charged for it. */
  remove(place: FairPlace<Request>): void {
    const { flow } = place;
    if (flow === undefined) return;
    if (place === this.#turn) this.#turn = undefined;
    const wasFirst = flow.first === place;
    this.#unlink(flow, place);
    if (!wasFirst) return;
    this.#heap.remove(flow);
    this.#enter(flow);
  }

  #append(flow: FairFlow<Request>, place: FairPlace<Request>): void {
    const { tokens } = place.request;
    place.previous = flow.last;
    if (flow.last !== undefined) flow.last.next = place;
    flow.last = place;
    flow.count += 1;
    this.size += 1;
    this.#all.queued += tokens;
    flow.workload.queued += tokens;
    if (flow.first !== undefined) return;
    flow.first = place;
    this.#enter(flow);
  }

  #unlink(flow: FairFlow<Request>, place: FairPlace<Request>): void {
    const { next, previous, request } = place;
    if (previous === undefined) flow.first = next;
    else previous.next = next;
    if (next === undefined) flow.last = previous;
    else next.previous = previous;
    place.next = undefined;
    place.previous = undefined;
    place.flow = undefined;
    flow.count -= 1;
    this.size -= 1;
    // Sums of fractions are not exact, and what is left of them must not add up.
    this.#all.queued = this.size === 0 ? 0 : this.#all.queued - request.tokens;
    flow.workload.queued -= request.tokens;
  }

  /** Puts a flow into the heap by its first request, or forgets it if it has none. */
  #enter(flow: FairFlow<Request>): void {
    const { workload, first } = flow;
    if (first === undefined) {
      workload.flows.delete(flow.key);
      if (workload.flows.size === 0) this.#workloads.delete(workload.key);
      return;
    }
    // Its flows share what a workload gets, so each of them advances as much more slowly.
    flow.due = flow.served + first.request.tokens * flow.share * workload.flows.size;
    this.#heap.push(flow);
  }
}

/** Requests of one workload with other priorities (`priority_label_key`) are a workload of their own. */
function keyOf({ workload, priority }: FairRequest): string {
  return `${priority} ${workload}`;
}

function isDueBefore<Request extends FairRequest>(
  a: FairFlow<Request>,
  b: FairFlow<Request>,
): boolean {
  if (a.due !== b.due) return a.due < b.due;
  return (a.first?.arrival ?? 0) < (b.first?.arrival ?? 0);
}
