// An event loop in virtual time: checks arrive, each turn handles the ones that are ready, and alarms ring between turns.

import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { OverloadGuard, type OverloadLimits } from "#flow/overload/guard.ts";
import { priorityClass } from "#flow/overload/priorities.ts";

/** Most checks that one turn handles. */
const PER_TURN = 512;
/** Milliseconds that a check takes which is shed. */
const COST_OF_SHED = 0.02;

interface Alarm {
  readonly at: number;
  readonly ring: () => void;
}

export interface Load {
  /** Checks per second. */
  readonly rate: number;
  /** Milliseconds that judging one of them takes. */
  readonly cost: number;
  /** Milliseconds that the load lasts. */
  readonly lasts: number;
  /** The priority of the check with this number. */
  readonly priority?: (index: number) => number;
}

/** The checks of one priority. */
export interface Outcome {
  judged: number;
  shed: number;
}

export class VirtualLoop implements Clock {
  readonly guard: OverloadGuard;
  readonly changes: boolean[] = [];
  /** The share that was shed, at each millisecond-aligned turn. */
  readonly shares: { readonly at: number; readonly share: number }[] = [];
  longestQueue = 0;
  #now = 1_000;
  #idle = 0;
  #computed = 0;
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
        computed: () => this.#computed,
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
    this.#computed += ms;
    this.#now += ms * this.slowness;
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
    let ready = 0;
    while (next < total) {
      this.#ringDue();
      while (ready < total && arrivesAt(ready) <= this.#now) ready++;
      this.longestQueue = Math.max(this.longestQueue, ready - next);
      const last = Math.min(ready, next + PER_TURN);
      for (; next < last; next++) this.#handle(load, next, outcomes);
      during?.(this.#now);
      this.shares.push({ at: this.#now, share: this.guard.share });
      if (next === ready && next < total) this.#wait(Math.min(end, arrivesAt(next)));
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

  #handle({ cost, priority = () => 1 }: Load, index: number, outcomes: Map<number, Outcome>): void {
    const { guard } = this;
    const importance = priority(index);
    const outcome = outcomes.get(importance) ?? { judged: 0, shed: 0 };
    outcomes.set(importance, outcome);
    const attends = this.#now >= guard.until && guard.attend(this.#now);
    const cause = attends ? guard.sheds(priorityClass(importance), this.#now) : undefined;
    if (cause === undefined) outcome.judged++;
    else outcome.shed++;
    this.#compute(cause === undefined ? cost : COST_OF_SHED);
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
