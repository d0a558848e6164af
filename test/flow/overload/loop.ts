// An event loop in virtual time: checks arrive, each turn reads them and handles those that have waited longest for a
// bounded time, and alarms ring between turns.

import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Caller } from "#flow/overload/callers.ts";
import { OverloadGuard, type OverloadLimits } from "#flow/overload/guard.ts";
import { priorityClass } from "#flow/overload/priorities.ts";

/** Milliseconds after which a turn ends. */
const TURN_MS = 10;
/** Milliseconds that a check takes beside its judgement. */
export const REST = 0.02;

interface Alarm {
  readonly at: number;
  readonly ring: () => void;
}

export interface Load {
  /** Checks per second. */
  readonly rate: number;
  /** Milliseconds that judging one of them takes, beside the rest. */
  readonly cost: number;
  /** Milliseconds that the load lasts. */
  readonly lasts: number;
  /** The priority of the check with this number. */
  readonly priority?: (index: number) => number;
  /** Who sends the check with this number, where that is not everybody at the same cost. */
  readonly sender?: (index: number) => Sender;
}

export interface Sender {
  readonly caller: Caller;
  readonly cost: number;
  /** Its outcomes are counted under this number instead of the priority. */
  readonly group: number;
}

/** The checks of one priority, or of one group of senders. */
export interface Outcome {
  judged: number;
  shed: number;
  /** Those that were shed because of what their callers take. */
  costly: number;
  /** Milliseconds for which each had waited, in their order. */
  readonly waits: number[];
}

export class VirtualLoop implements Clock {
  readonly guard: OverloadGuard;
  readonly changes: boolean[] = [];
  /** The share that was shed, at each millisecond-aligned turn. */
  readonly shares: { readonly at: number; readonly share: number }[] = [];
  longestQueue = 0;
  #now = 1_000;
  #idle = 0;
  /** The wait of the check with which each turn began, since the guard asked, ms. */
  #waits: number[] = [];
  /** How long it takes to compute for a millisecond: more than one where others use the machine. */
  slowness = 1;
  #alarms: Alarm[] = [];

  constructor(limits: Partial<OverloadLimits> = {}) {
    this.guard = new OverloadGuard(
      { max_delay: 25, max_in_progress: 1_000, ...limits },
      {
        clock: this,
        chance: seededChance(1),
        idle: () => this.#idle,
        waited: () => this.#takeWait(),
        changed: (shedding) => this.changes.push(shedding),
      },
    );
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#now;
  }

  wallOf(now: number): number {
    return now;
  }

  alarm(ms: number, ring: () => void): () => void {
    // As the platform's timers, which take whole milliseconds, at least one.
    const alarm = { at: this.#now + Math.max(1, ms), ring };
    this.#alarms.push(alarm);
    return () => {
      this.#alarms = this.#alarms.filter((other) => other !== alarm);
    };
  }

  get alarms(): number {
    return this.#alarms.length;
  }

  /** The process does nothing for so long, as during a collection of garbage, and handles nothing meanwhile. */
  pause(ms: number): void {
    this.#compute(ms);
  }

  #compute(ms: number): void {
    this.#now += ms * this.slowness;
  }

  #takeWait(): number | undefined {
    const waits = this.#waits.sort((a, b) => a - b);
    this.#waits = [];
    return waits[Math.floor(waits.length / 2)];
  }

  /** Turns until the load and its backlog are done. `during` is called in each turn, for what disturbs the loop. */
  run(load: Load, during?: (now: number) => void): Map<number, Outcome> {
    const outcomes = new Map<number, Outcome>();
    const began = this.#now;
    const end = began + load.lasts;
    const gap = 1_000 / load.rate;
    const total = Math.floor(load.lasts / gap);
    const arrivesAt = (index: number) => began + index * gap;
    let next = 0;
    const read: number[] = [];
    while (next < total) {
      this.#ringDue();
      const turnBegan = this.#now;
      while (read.length < total && arrivesAt(read.length) <= turnBegan) read.push(turnBegan);
      this.longestQueue = Math.max(this.longestQueue, read.length - next);
      if (next < read.length) this.#waits.push(this.#now - (read[next] ?? 0));
      for (; next < read.length && this.#now - turnBegan < TURN_MS; next++) {
        this.#handle(load, next, outcomes, this.#now - (read[next] ?? 0));
      }
      during?.(this.#now);
      this.shares.push({ at: this.#now, share: this.guard.share });
      if (next === read.length && next < total) this.#wait(Math.min(end, arrivesAt(next)));
    }
    return outcomes;
  }

  /** Nothing arrives for so long. */
  rest(ms: number): void {
    const until = this.#now + ms;
    while (this.#now < until) {
      this.#ringDue();
      this.#wait(until);
    }
  }

  #handle(
    { priority = () => 1, sender, ...load }: Load,
    index: number,
    outcomes: Map<number, Outcome>,
    wait: number,
  ): void {
    const { guard } = this;
    const importance = priority(index);
    const { caller, cost = load.cost, group = importance } = sender?.(index) ?? {};
    const outcome = outcomes.get(group) ?? { judged: 0, shed: 0, costly: 0, waits: [] };
    outcomes.set(group, outcome);
    outcome.waits.push(wait);
    const decides = this.#now >= guard.until && guard.attend(this.#now);
    const cause = decides ? guard.sheds(priorityClass(importance), this.#now, caller) : undefined;
    this.#compute(REST);
    if (cause !== undefined) {
      outcome.shed++;
      if (cause === "cost") outcome.costly++;
      return;
    }
    outcome.judged++;
    this.#compute(cost);
    if (decides) guard.judged(cost * this.slowness);
  }

  /** Waits until something happens, at `until` at the latest. */
  #wait(until: number): void {
    const next = Math.min(until, ...this.#alarms.map(({ at }) => at));
    if (next <= this.#now) return;
    this.#idle += next - this.#now;
    this.#now = next;
  }

  /** As in a phase of timers: those that are set meanwhile ring in the next turn. */
  #ringDue(): void {
    const due = this.#alarms.filter(({ at }) => at <= this.#now);
    this.#alarms = this.#alarms.filter((alarm) => !due.includes(alarm));
    for (const { ring } of due) ring();
  }
}
