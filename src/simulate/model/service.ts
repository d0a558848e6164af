// A service as a queueing model: a number of servers, a bounded queue, and callers with timeouts and retries. The
// limiters under test decide whether a request is accepted at all.

import type { Chance } from "#base/chance.ts";
import { type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import type { LabelSource } from "#flow/label.ts";
import type { ServiceSpec } from "../scenario/service.ts";
import { arrivals } from "./arrivals.ts";
import { drawClass, serviceTime } from "./distributions.ts";
import { ATTEMPT_END, type AttemptEnd, type Ledger } from "./ledger.ts";
import type { Timeline } from "./timeline.ts";

/** The agent in front of the service. */
export interface ServiceGate {
  judge(flow: Flow): Verdict | Pending<Verdict>;
  /** An accepted request has ended, and its end is reported: releases what it holds and records its metrics. */
  completed(flow: Flow, verdict: Verdict, end: RequestEnd): void;
}

/** The end of an accepted request as its proxy reports it. */
export interface RequestEnd {
  /** Time from its arrival, ms. */
  readonly latencyMs: number;
  /** Time since the verdict, and so without the time in the queue of a scheduler, ms. */
  readonly workloadMs: number;
  /** The service responded. */
  readonly answered: boolean;
}

export interface ServiceContext {
  readonly timeline: Timeline;
  readonly chance: Chance;
  readonly gate: ServiceGate;
  readonly ledger: Ledger;
  /** Place of this service's first request class in the ledger. */
  readonly firstClass: number;
  /** End of the run, ms; no requests arrive after it. */
  readonly until: number;
}

/** Statistics of a sample interval. */
export interface ServiceStats {
  readonly offered: number;
  readonly accepted: number;
  readonly answered: number;
  readonly failed: number;
  /** Unsorted, ms: of answers, and of requests whose callers stopped waiting. */
  readonly latencies: readonly number[];
  /** Total busy time of all servers, ms. */
  readonly busyMs: number;
}

/** A request at its check. */
interface Attempt {
  readonly requestClass: number;
  /** Number of attempts before this one. */
  readonly tries: number;
  readonly flow: Flow;
  readonly arrived: number;
}

/** An accepted request. */
interface Request extends Attempt {
  readonly verdict: Verdict;
  /** Time of the verdict. */
  readonly passed: number;
  readonly place: number;
  state: "waiting" | "served" | "gone";
  stopWaiting: () => void;
}

export class SimulatedService {
  readonly #model: ServiceSpec;
  readonly #context: ServiceContext;
  readonly #labels: readonly LabelSource[];
  /** Requests before index `#head` have left. */
  #queue: Request[] = [];
  #head = 0;
  #queued = 0;
  #undecided = 0;
  #busy = 0;
  #counted = 0;
  #stats = emptyStats();

  constructor(model: ServiceSpec, context: ServiceContext) {
    this.#model = model;
    this.#context = context;
    this.#labels = model.mix.map(({ labels }) => labelSource(labels));
  }

  /** Starts the arrivals. */
  open(): void {
    const { timeline, chance, until } = this.#context;
    arrivals({ ...this.#model, until }, timeline, chance, () =>
      this.#attempt(drawClass(this.#model.mix, chance), 0),
    );
  }

  get queued(): number {
    return this.#queued;
  }

  /** Number of checks that arrived within the simulated time and wait in the queue of a scheduler. */
  get undecided(): number {
    return this.#undecided;
  }

  get busy(): number {
    return this.#busy;
  }

  /** Statistics since the last call. */
  takeStats(): ServiceStats {
    this.#count();
    const stats = this.#stats;
    this.#stats = emptyStats();
    return stats;
  }

  #attempt(requestClass: number, tries: number): void {
    const { timeline, gate, until } = this.#context;
    const flow = this.#flow(requestClass);
    const attempt = { requestClass, tries, flow, arrived: timeline.now };
    const judged = gate.judge(flow);
    if (!(judged instanceof Pending)) {
      this.#judged(attempt, judged);
      return;
    }
    const counts = timeline.now < until ? 1 : 0;
    this.#undecided += counts;
    judged.whenSettled((verdict) => {
      this.#undecided -= counts;
      this.#judged(attempt, verdict);
    }, raise);
  }

  #judged(attempt: Attempt, verdict: Verdict): void {
    const { ledger, firstClass, timeline } = this.#context;
    const { requestClass, tries, arrived } = attempt;
    const reason = verdict.accepted ? RejectReason.none : verdict.reason;
    const place = ledger.recordArrival(firstClass + requestClass, arrived, reason);
    this.#stats.offered += 1;
    if (!verdict.accepted) {
      this.#retry(requestClass, tries, "refused");
      return;
    }
    this.#stats.accepted += 1;
    this.#enter({
      ...attempt,
      verdict,
      passed: timeline.now,
      place,
      state: "waiting",
      stopWaiting: () => undefined,
    });
  }

  #enter(request: Request): void {
    const { servers, queue, timeout } = this.#model;
    if (this.#busy >= servers && this.#queued >= queue) {
      this.#leave(request, ATTEMPT_END.queueFull);
      return;
    }
    if (timeout !== Number.POSITIVE_INFINITY) {
      // The check may have used part of the timeout in the queue of a scheduler.
      const { timeline } = this.#context;
      const left = request.arrived + timeout - timeline.now;
      request.stopWaiting = timeline.after(left, () => this.#timeOut(request));
    }
    if (this.#busy < servers) this.#serve(request);
    else {
      this.#queue.push(request);
      this.#queued += 1;
    }
  }

  #serve(request: Request): void {
    const { timeline, chance } = this.#context;
    const slower = this.#model.slowdown.at(timeline.now);
    request.state = "served";
    this.#count();
    this.#busy += 1;
    timeline.after(serviceTime(this.#model.time, chance) * slower, () => {
      this.#count();
      this.#busy -= 1;
      if (request.state !== "gone") this.#leave(request, ATTEMPT_END.answered);
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
    // Removed in bulk, because removing one at a time would take quadratic time for a long queue.
    if (this.#head > 1_024 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }

  /** The caller stops waiting. It leaves the queue; a server that already works on it continues. */
  #timeOut(request: Request): void {
    if (request.state === "waiting") this.#queued -= 1;
    this.#leave(request, ATTEMPT_END.timedOut);
  }

  #leave(request: Request, how: AttemptEnd): void {
    const { now } = this.#context.timeline;
    request.state = "gone";
    request.stopWaiting();
    this.#context.ledger.recordEnd(request.place, now, how);
    const answered = how === ATTEMPT_END.answered;
    const latencyMs = now - request.arrived;
    this.#report(request, { latencyMs, workloadMs: now - request.passed, answered });
    if (answered) this.#stats.answered += 1;
    else this.#stats.failed += 1;
    if (how !== ATTEMPT_END.queueFull) this.#stats.latencies.push(latencyMs);
    if (!answered) this.#retry(request.requestClass, request.tries, "failed");
  }

  /** Reports the end to the agent: at once, or at the end of the report interval. */
  #report({ flow, verdict }: Request, end: RequestEnd): void {
    const { timeline, gate } = this.#context;
    const { reportEvery: every } = this.#model;
    if (every === 0) gate.completed(flow, verdict, end);
    else {
      const next = (Math.floor(timeline.now / every) + 1) * every;
      timeline.at(next, () => gate.completed(flow, verdict, end));
    }
  }

  #retry(requestClass: number, tries: number, why: "refused" | "failed"): void {
    const { retries } = this.#model;
    if (retries === undefined || tries >= retries.most || !retries.of.includes(why)) return;
    const { timeline, chance } = this.#context;
    const wait = retries.after * retries.grow ** tries;
    const spread = 1 + retries.jitter * (2 * chance() - 1);
    timeline.after(wait * spread, () => this.#attempt(requestClass, tries + 1));
  }

  #flow(requestClass: number): Flow {
    const { controlPoint, services, rampMode, timeout } = this.#model;
    return {
      controlPoint,
      type: "http",
      services,
      labels: this.#labels[requestClass] ?? labelSource({}),
      http: undefined,
      rampMode,
      expectEnd: true,
      deadline: this.#context.timeline.now + timeout,
    };
  }

  #count(): void {
    const { now } = this.#context.timeline;
    this.#stats.busyMs += this.#busy * (now - this.#counted);
    this.#counted = now;
  }
}

function emptyStats() {
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

/** A check that throws ends the run, whose result would be meaningless. */
function raise(thrown: unknown): never {
  throw thrown;
}
