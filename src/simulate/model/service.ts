// A service as a queueing model: a number of servers, a queue with an end, callers who stop waiting and come
// back. Whether a request gets in at all is decided by our own limiters.

import type { Chance } from "#base/chance.ts";
import { type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import type { LabelSource } from "#flow/label.ts";
import type { Served } from "../scenario/served.ts";
import { arrivals } from "./arrivals.ts";
import { serviceTime, sortOf } from "./chances.ts";
import { END, type End, type Ledger } from "./ledger.ts";
import type { Timeline } from "./timeline.ts";

/** Who stands before the service. */
export interface Gate {
  judge(flow: Flow): Verdict | Pending<Verdict>;
  /** A request that was let in is over: what it holds is free, and its meters are told. */
  over(flow: Flow, verdict: Verdict, latencyMs: number, answered: boolean): void;
}

export interface ServiceWorld {
  readonly timeline: Timeline;
  readonly chance: Chance;
  readonly gate: Gate;
  readonly ledger: Ledger;
  /** Place of this service's first sort in the ledger. */
  readonly firstSort: number;
  /** The end of the run, ms: nobody comes after it. */
  readonly until: number;
}

/** What happened since it was last asked. */
export interface Lately {
  readonly offered: number;
  readonly accepted: number;
  readonly answered: number;
  readonly failed: number;
  /** In no order, ms: answers, and those whose callers stopped waiting. */
  readonly latencies: readonly number[];
  /** Milliseconds of work of all servers together. */
  readonly busyMs: number;
}

interface Request {
  readonly sort: number;
  /** Attempts before this one. */
  readonly tries: number;
  readonly flow: Flow;
  readonly verdict: Verdict;
  readonly arrived: number;
  readonly place: number;
  state: "waiting" | "served" | "gone";
  stopWaiting: () => void;
}

export class Service {
  readonly #model: Served;
  readonly #world: ServiceWorld;
  readonly #labels: readonly LabelSource[];
  /** Those in front of `#head` have left. */
  #queue: Request[] = [];
  #head = 0;
  #queued = 0;
  #busy = 0;
  #counted = 0;
  #lately = nothing();

  constructor(model: Served, world: ServiceWorld) {
    this.#model = model;
    this.#world = world;
    this.#labels = model.mix.map(({ labels }) => labelSource(labels));
  }

  /** From now on requests come. */
  open(): void {
    const { timeline, chance, until } = this.#world;
    arrivals({ ...this.#model, until }, timeline, chance, () =>
      this.#attempt(sortOf(this.#model.mix, chance), 0),
    );
  }

  get queued(): number {
    return this.#queued;
  }

  get busy(): number {
    return this.#busy;
  }

  /** Counts of the time since the last call. */
  takeLately(): Lately {
    this.#count();
    const lately = this.#lately;
    this.#lately = nothing();
    return lately;
  }

  #attempt(sort: number, tries: number): void {
    const { timeline, gate } = this.#world;
    const flow = this.#flow(sort);
    const arrived = timeline.now;
    const judged = gate.judge(flow);
    const meet = (verdict: Verdict) => this.#judged(flow, verdict, sort, tries, arrived);
    if (judged instanceof Pending) judged.whenSettled(meet, raise);
    else meet(judged);
  }

  #judged(flow: Flow, verdict: Verdict, sort: number, tries: number, arrived: number): void {
    const { ledger, firstSort } = this.#world;
    const reason = verdict.accepted ? RejectReason.none : verdict.reason;
    const place = ledger.arrive(firstSort + sort, arrived, reason);
    this.#lately.offered += 1;
    if (!verdict.accepted) {
      this.#again(sort, tries, "refused");
      return;
    }
    this.#lately.accepted += 1;
    const stopWaiting = () => undefined;
    this.#enter({ sort, tries, flow, verdict, arrived, place, state: "waiting", stopWaiting });
  }

  #enter(request: Request): void {
    const { servers, queue, timeout } = this.#model;
    if (this.#busy >= servers && this.#queued >= queue) {
      this.#leave(request, END.turnedAway);
      return;
    }
    if (timeout !== Number.POSITIVE_INFINITY) {
      request.stopWaiting = this.#world.timeline.after(timeout, () => this.#tire(request));
    }
    if (this.#busy < servers) this.#serve(request);
    else {
      this.#queue.push(request);
      this.#queued += 1;
    }
  }

  #serve(request: Request): void {
    const { timeline, chance } = this.#world;
    const slower = this.#model.slowdown.at(timeline.now);
    request.state = "served";
    this.#count();
    this.#busy += 1;
    timeline.after(serviceTime(this.#model.time, chance) * slower, () => {
      this.#count();
      this.#busy -= 1;
      if (request.state !== "gone") this.#leave(request, END.answered);
      this.#next();
    });
  }

  #next(): void {
    for (;;) {
      const request = this.#queue[this.#head];
      if (request === undefined) break;
      this.#head += 1;
      if (request.state === "gone") continue;
      this.#queued -= 1;
      this.#serve(request);
      break;
    }
    // Those who have left go in bulk: moving the rest for each would cost the square of a long queue.
    if (this.#head > 1_024 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }

  /** The caller stops waiting. In the queue its place is free; a server that has begun knows nothing of it. */
  #tire(request: Request): void {
    if (request.state === "waiting") this.#queued -= 1;
    this.#leave(request, END.timedOut);
  }

  #leave(request: Request, how: End): void {
    const { timeline, ledger, gate } = this.#world;
    request.state = "gone";
    request.stopWaiting();
    ledger.end(request.place, timeline.now, how);
    const answered = how === END.answered;
    const latency = timeline.now - request.arrived;
    gate.over(request.flow, request.verdict, latency, answered);
    if (answered) this.#lately.answered += 1;
    else this.#lately.failed += 1;
    if (how !== END.turnedAway) this.#lately.latencies.push(latency);
    if (!answered) this.#again(request.sort, request.tries, "failed");
  }

  #again(sort: number, tries: number, why: "refused" | "failed"): void {
    const { retries } = this.#model;
    if (retries === undefined || tries >= retries.most || !retries.of.includes(why)) return;
    const { timeline, chance } = this.#world;
    const wait = retries.after * retries.grow ** tries;
    const spread = 1 + retries.jitter * (2 * chance() - 1);
    timeline.after(wait * spread, () => this.#attempt(sort, tries + 1));
  }

  #flow(sort: number): Flow {
    const { controlPoint, services, rampMode } = this.#model;
    return {
      controlPoint,
      type: "http",
      services,
      labels: this.#labels[sort] ?? labelSource({}),
      http: undefined,
      rampMode,
      expectEnd: true,
      deadline: Number.POSITIVE_INFINITY,
    };
  }

  #count(): void {
    const { now } = this.#world.timeline;
    this.#lately.busyMs += this.#busy * (now - this.#counted);
    this.#counted = now;
  }
}

function nothing() {
  return { offered: 0, accepted: 0, answered: 0, failed: 0, latencies: [] as number[], busyMs: 0 };
}

function labelSource(labels: Readonly<Record<string, string>>): LabelSource {
  const all = new Map(Object.entries(labels));
  return {
    get: ({ name }) => all.get(name),
    origin: ({ name }) => (all.has(name) ? "attribute" : undefined),
    each(visit) {
      for (const [name, value] of all) visit(name, value, true, "attribute");
    },
  };
}

/** A check that breaks ends the run: its result would mean nothing. */
function raise(thrown: unknown): never {
  throw thrown;
}
