// The queues of one scheduler, one for each key, and the flows in them. A queue exists while flows stand in it. One flow
// at a time has its turn: it is asked about when it might pass, and all others wait without any cost.

import type { Clock } from "#base/clock.ts";
import { type Decision, grantOf, Pending, Queued } from "../../flow.ts";
import type { Labels } from "../../label.ts";
import type { Observer } from "../../observer.ts";
import type { WorkloadDetail } from "../../rules.ts";
import type { Ticket } from "../front-end.ts";
import type { Gate } from "../gate.ts";
import { type FairPlace, FairQueue, type FairRequest } from "./fair-queue.ts";
import { Pressure } from "./pressure.ts";
import { Timer, type Timers } from "./timers.ts";

/** Bounds on the flows that wait. */
interface WaitingBounds {
  readonly flows: number;
  readonly bytes: number;
}

/** The flows that wait at one scheduler, or at all schedulers of an agent. */
export class WaitingRoom {
  flows = 0;
  bytes = 0;
  readonly #most: WaitingBounds;
  readonly #outer: WaitingRoom | undefined;

  constructor(most: WaitingBounds, outer?: WaitingRoom) {
    this.#most = most;
    this.#outer = outer;
  }

  /** Number of flows for which there is room. */
  get free(): number {
    const here = this.#most.flows - this.flows;
    return this.#outer === undefined ? here : Math.min(here, this.#outer.free);
  }

  hasRoomFor(bytes: number): boolean {
    return this.bytes + bytes <= this.#most.bytes && this.#outer?.hasRoomFor(bytes) !== false;
  }

  enter(bytes: number): void {
    this.flows += 1;
    this.bytes += bytes;
    this.#outer?.enter(bytes);
  }

  leave(bytes: number): void {
    this.flows -= 1;
    this.bytes -= bytes;
    this.#outer?.leave(bytes);
  }
}

export interface LinesContext {
  readonly clock: Clock;
  readonly observer: Observer;
  readonly timers: Timers;
  /** The flows that wait at all schedulers. */
  readonly waiting: WaitingRoom;
}

/** Most flows that wait at one scheduler: further ones are refused at once. */
export const MAX_WAITING: WaitingBounds = { flows: 16_384, bytes: 32 << 20 };

/** A flow is not asked about when less than this many times the latency of the last answer is left. */
const TOO_LATE = 2;

/** Bytes of the objects of one flow that waits, by measurement, without what the flow itself holds. */
const WAITER_SIZE = 1_024;

/** The scheduler that a flow waits at. */
export interface Desk {
  readonly gate: Gate;
  /** A flow waits. */
  queued(): void;
  /** A flow does not wait any more. */
  report(waiter: Waiter, passed: boolean, now: number, overtook: Overtook | undefined): void;
}

/** Tokens that were overtaken, of all flows and of those of the same workload. */
export interface Overtook {
  readonly all: number;
  /** Only for flows that stood behind another one of their fairness label. */
  readonly alike: number | undefined;
}

type Answer = Decision<WorkloadDetail>;

/** One flow that waits. */
export class Waiter implements FairRequest {
  readonly desk: Desk;
  readonly labels: Labels;
  readonly ticket: Ticket;
  readonly size: number;
  readonly since: number;
  /** When it is refused. */
  readonly until: number;
  readonly answer: Queued<Decision>;
  readonly timer: Timer;
  /** Undefined while it is asked about for the first time. */
  place: FairPlace<Waiter> | undefined;
  /** An answer about it that has not come yet. */
  asked: Pending<Answer> | undefined;
  attempts = 1;
  done = false;
  /** The last decision about it. */
  last: Answer | undefined;

  constructor(line: Line, desk: Desk, arrival: Arrival) {
    const { labels, ticket, now } = arrival;
    this.desk = desk;
    this.labels = labels;
    this.ticket = ticket;
    this.size = WAITER_SIZE + arrival.size;
    this.since = now;
    this.until = now + ticket.patienceMs;
    this.answer = new Queued(() => line.leave(this));
    this.timer = new Timer(() => line.expire(this));
  }

  get workload(): string {
    return this.ticket.workload;
  }

  get priority(): number {
    return this.ticket.priority;
  }

  get fairness(): string | undefined {
    return this.ticket.fairness;
  }

  get tokens(): number {
    return this.ticket.tokens;
  }
}

/** A flow that has to wait. */
export interface Arrival {
  readonly labels: Labels;
  readonly ticket: Ticket;
  /** Bytes that the flow holds. */
  readonly size: number;
  readonly now: number;
}

/** The queue of one key. */
export class Line {
  readonly #context: LinesContext;
  readonly #room: WaitingRoom;
  readonly #emptied: () => void;
  readonly #queue = new FairQueue<Waiter>();
  readonly #retry = new Timer(() => this.poke());
  /** Flows that stand in the queue or are asked about before they do. */
  #flows = 0;
  /** Undefined where no other agent waits for the same. */
  #pressure: Pressure | undefined;
  /** The flow whose turn it is was asked about and has to wait. */
  #blocked = false;
  #serving = false;
  /** The time that the last answer took, ms. */
  #answerMs = 0;

  constructor(context: LinesContext, room: WaitingRoom, emptied: () => void) {
    this.#context = context;
    this.#room = room;
    this.#emptied = emptied;
  }

  get size(): number {
    return this.#queue.size;
  }

  /** Whether a flow may wait. One workload leaves as much room as it takes, so that it cannot keep out the others. */
  hasRoomFor(ticket: Ticket, size: number): boolean {
    return this.#queue.alike(ticket) < this.#room.free && this.#room.hasRoomFor(WAITER_SIZE + size);
  }

  /** Lets a flow wait that was asked about for the first time: `first` is the answer, if there is one yet. */
  wait(
    desk: Desk,
    arrival: Arrival,
    first: Answer | Pending<Answer> | undefined,
  ): Queued<Decision> {
    const waiter = new Waiter(this, desk, arrival);
    this.#flows += 1;
    if (desk.gate.pauseMs !== undefined) {
      this.#pressure ??= new Pressure(arrival.now);
      this.#pressure.arrived(arrival.ticket, arrival.now);
    }
    this.#room.enter(waiter.size);
    desk.queued();
    this.#context.timers.set(waiter.timer, waiter.until);
    if (first instanceof Pending) this.#await(waiter, first);
    else if (first === undefined) this.#join(waiter);
    else this.#judge(waiter, first);
    return waiter.answer;
  }

  /** Something may have become free: the flow whose turn it is need not wait until its time. */
  poke(): void {
    this.#context.timers.cancel(this.#retry);
    this.#blocked = false;
    this.#serve();
  }

  /** The caller went away, or another limiter refused the flow. */
  leave(waiter: Waiter): void {
    if (!waiter.done) this.#finish(waiter, unjudged(waiter), undefined);
  }

  /** The time of a flow is over. */
  expire(waiter: Waiter): void {
    if (waiter.done) return;
    const { desk, labels, ticket, last } = waiter;
    this.#finish(waiter, last ?? desk.gate.refusal(labels, ticket), undefined);
  }

  /** Lets all flows pass: the scheduler is in no plan any more. */
  close(): void {
    for (;;) {
      const place = this.#queue.next();
      if (place === undefined) break;
      // The queues are closed: a flow that leaves only makes room for the next one to leave, and none is served.
      this.#serving = true;
      this.leave(place.request);
    }
    this.#serving = false;
  }

  #serve(): void {
    if (this.#serving) return;
    this.#serving = true;
    while (!this.#blocked) {
      const waiter = this.#queue.next()?.request;
      if (waiter === undefined || waiter.asked !== undefined) break;
      if (this.#isTooLate(waiter)) this.expire(waiter);
      else this.#ask(waiter);
    }
    this.#serving = false;
  }

  /** True if the time of a flow would probably be over before the answer about it is there. */
  #isTooLate({ until }: Waiter): boolean {
    return this.#answerMs > 0 && until - this.#context.clock.now() < TOO_LATE * this.#answerMs;
  }

  #ask(waiter: Waiter): void {
    const { desk, labels, ticket } = waiter;
    waiter.attempts += 1;
    try {
      const queued = { behind: this.#queue.tokens - ticket.tokens, aheadMs: this.#answerMs };
      const answer = desk.gate.take(labels, ticket, this.#context.clock.now(), queued);
      if (answer instanceof Pending) this.#await(waiter, answer);
      else this.#judge(waiter, answer);
    } catch (thrown) {
      this.#fail(waiter, thrown);
    }
  }

  #await(waiter: Waiter, answer: Pending<Answer>): void {
    const { clock } = this.#context;
    const askedAt = clock.now();
    waiter.asked = answer;
    answer.whenSettled(
      (decision) => {
        waiter.asked = undefined;
        if (!waiter.done) this.#answerMs = clock.now() - askedAt;
        if (waiter.done) {
          const grant = grantOf(decision);
          if (grant !== undefined) waiter.desk.gate.undo(grant);
        } else {
          this.#judge(waiter, decision);
          this.#serve();
        }
      },
      (thrown) => {
        waiter.asked = undefined;
        this.#fail(waiter, thrown);
      },
    );
  }

  /** Settles a flow that was asked about, or lets it wait. */
  #judge(waiter: Waiter, decision: Answer): void {
    const { labels, ticket, attempts } = waiter;
    const now = this.#context.clock.now();
    const left = waiter.until - now;
    const wait = { labels, ticket, left, attempts, aheadMs: this.#answerMs };
    const retryMs = waiter.desk.gate.retryIn(decision, wait, now);
    if (retryMs === undefined) {
      this.#finish(waiter, decision, decision);
      return;
    }
    waiter.last = decision;
    if (waiter.place === undefined) this.#join(waiter);
    if (this.#queue.next() !== waiter.place) return;
    this.#blocked = true;
    if (retryMs === Number.POSITIVE_INFINITY) return;
    this.#context.timers.set(this.#retry, now + retryMs + this.#pauseMs(waiter, now));
  }

  #pauseMs(waiter: Waiter, now: number): number {
    if (this.#pressure === undefined) return 0;
    return waiter.desk.gate.pauseMs?.(this.#pressure, waiter.ticket, now) ?? 0;
  }

  /**
   * The flow whose turn it was is gone. The next one is asked about at once; where other agents wait for the same, it only
   * takes over what is left of the pause, so that a queue in which many flows give up does not ask more often.
   */
  #turnEnded(passed: boolean, tokens: number): void {
    const { clock, timers } = this.#context;
    const next = passed || !this.#retry.isSet ? undefined : this.#queue.next()?.request;
    if (next === undefined || this.#pressure === undefined) {
      timers.cancel(this.#retry);
      this.#blocked = false;
    } else if (next.tokens < tokens) {
      const now = clock.now();
      timers.set(this.#retry, Math.min(this.#retry.at, now + this.#pauseMs(next, now)));
    }
  }

  #join(waiter: Waiter): void {
    waiter.place = this.#queue.push(waiter);
  }

  #fail(waiter: Waiter, thrown: unknown): void {
    if (waiter.done) return;
    this.#remove(waiter, false);
    waiter.answer.fail(thrown);
    this.#serve();
  }

  /** `asked` is the answer of the gate, if it is the reason. */
  #finish(waiter: Waiter, decision: Decision, asked: Answer | undefined): void {
    const passed = asked !== undefined && !asked.dropped;
    const overtook = this.#remove(waiter, passed);
    waiter.desk.report(waiter, passed, this.#context.clock.now(), overtook);
    waiter.answer.settle(decision);
    this.#serve();
  }

  /** Takes a flow out of the queue: `passed` says whether it is charged to its workload. */
  #remove(waiter: Waiter, passed: boolean): Overtook | undefined {
    const { place } = waiter;
    const queue = this.#queue;
    waiter.done = true;
    this.#flows -= 1;
    this.#context.timers.cancel(waiter.timer);
    this.#room.leave(waiter.size);
    const { asked } = waiter;
    waiter.asked = undefined;
    let overtook: Overtook | undefined;
    if (place !== undefined) {
      const turn = queue.next() === place;
      if (passed) {
        const alike = place.behind ? queue.overtaken(place, "alike") : undefined;
        overtook = { all: queue.overtaken(place, "all"), alike };
        queue.admit();
      } else queue.remove(place);
      if (turn) this.#turnEnded(passed, waiter.tokens);
    }
    if (this.#flows === 0) this.#emptied();
    asked?.cancel();
    return overtook;
  }
}

/** The decision about a flow that was not judged to the end: it is not refused here, and has taken nothing. */
function unjudged({ desk, labels, ticket }: Waiter): Decision {
  const refusal = desk.gate.refusal(labels, ticket);
  return { ...refusal, outcome: "granted", dropped: false };
}

/** The queues of one scheduler, by key. */
export class Lines {
  readonly #context: LinesContext;
  readonly #room: WaitingRoom;
  readonly #lines = new Map<string, Line>();

  constructor(context: LinesContext, most: WaitingBounds = MAX_WAITING) {
    this.#context = context;
    this.#room = new WaitingRoom(most, context.waiting);
  }

  /** Queues in which flows stand. */
  get size(): number {
    return this.#lines.size;
  }

  /** Flows that wait. */
  get flows(): number {
    return this.#room.flows;
  }

  /** Whether a flow with this key has to stand behind others. */
  isOpen(key: string): boolean {
    const line = this.#lines.get(key);
    return line !== undefined && line.size > 0;
  }

  /** Lets a flow wait; undefined, which is counted, when there is no room for it. */
  wait(
    key: string,
    desk: Desk,
    arrival: Arrival,
    first: Answer | Pending<Answer> | undefined,
  ): Queued<Decision> | undefined {
    const line = this.#lines.get(key) ?? this.#open(key);
    if (line.hasRoomFor(arrival.ticket, arrival.size)) return line.wait(desk, arrival, first);
    this.#context.observer.anomaly("queue_full");
    if (line.size === 0) this.#lines.delete(key);
    return undefined;
  }

  poke(key: string): void {
    this.#lines.get(key)?.poke();
  }

  pokeAll(): void {
    for (const line of [...this.#lines.values()]) line.poke();
  }

  close(): void {
    for (const line of [...this.#lines.values()]) line.close();
  }

  #open(key: string): Line {
    const line = new Line(this.#context, this.#room, () => {
      if (this.#lines.get(key) === line) this.#lines.delete(key);
    });
    this.#lines.set(key, line);
    return line;
  }
}
