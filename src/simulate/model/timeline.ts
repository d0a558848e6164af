// Virtual time: an event queue with a clock that jumps from event to event. Events at the same time happen in the
// order in which they were scheduled.

import type { Clock } from "#base/clock.ts";

type Action = () => void;

interface Event {
  readonly at: number;
  readonly order: number;
  /** Undefined once it was cancelled. */
  action: Action | undefined;
}

export class Timeline {
  /** Unix ms at time 0. */
  readonly #epoch: number;
  /** A binary heap with the earliest event first. */
  readonly #events: Event[] = [];
  #now = 0;
  #scheduled = 0;

  constructor(epoch: number) {
    this.#epoch = epoch;
  }

  /** Milliseconds since the start. */
  get now(): number {
    return this.#now;
  }

  /** The clock for limiters and checks. */
  get clock(): Clock {
    return {
      now: () => this.#now,
      wall: () => this.#epoch + this.#now,
      wallOf: (now) => this.#epoch + now,
      alarm: (ms, ring) => this.after(ms, ring),
    };
  }

  /** Schedules an action `ms` from now. The returned function cancels it. */
  after(ms: number, action: Action): () => void {
    return this.at(this.#now + Math.max(0, ms), action);
  }

  /** Schedules an action at a time; past times mean now. The returned function cancels it. */
  at(ms: number, action: Action): () => void {
    const event: Event = { at: Math.max(ms, this.#now), order: this.#scheduled++, action };
    this.#push(event);
    return () => {
      event.action = undefined;
    };
  }

  /** Runs all events before `until`, which becomes the current time. */
  run(until: number): void {
    for (
      let next = this.#events[0];
      next !== undefined && next.at < until;
      next = this.#events[0]
    ) {
      this.#pop();
      if (next.action === undefined) continue;
      this.#now = next.at;
      next.action();
    }
    this.#now = Math.max(this.#now, until);
  }

  #push(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = events[above];
      if (parent === undefined || !isBefore(event, parent)) break;
      events[at] = parent;
      at = above;
    }
    events[at] = event;
  }

  #pop(): void {
    const events = this.#events;
    const last = events.pop();
    if (last === undefined || events.length === 0) return;
    let at = 0;
    for (;;) {
      let below = at * 2 + 1;
      let child = events[below];
      const right = events[below + 1];
      if (child === undefined) break;
      if (right !== undefined && isBefore(right, child)) {
        child = right;
        below += 1;
      }
      if (!isBefore(child, last)) break;
      events[at] = child;
      at = below;
    }
    events[at] = last;
  }
}

function isBefore(left: Event, right: Event): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}
