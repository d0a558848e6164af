// Virtual time: what is due happens in order, and the clock stands still in between. Events at one moment
// happen in the order in which they were asked for.

import type { Clock } from "#base/clock.ts";

type Action = () => void;

interface Event {
  readonly at: number;
  readonly order: number;
  /** Undefined once it was taken back. */
  action: Action | undefined;
}

export class Timeline {
  /** Unix ms at time 0. */
  readonly #epoch: number;
  /** A binary heap: the earliest is first. */
  readonly #events: Event[] = [];
  #now = 0;
  #asked = 0;

  constructor(epoch: number) {
    this.#epoch = epoch;
  }

  /** Milliseconds since the start. */
  get now(): number {
    return this.#now;
  }

  /** The clock that limiters and checks are given. */
  get clock(): Clock {
    return {
      now: () => this.#now,
      wall: () => this.#epoch + this.#now,
      wallSince: () => this.#epoch + this.#now,
      alarm: (ms, ring) => this.after(ms, ring),
    };
  }

  /** The returned function takes it back. */
  after(ms: number, action: Action): () => void {
    return this.at(this.#now + Math.max(0, ms), action);
  }

  /** Times that have passed are now. */
  at(ms: number, action: Action): () => void {
    const event: Event = { at: Math.max(ms, this.#now), order: this.#asked++, action };
    this.#push(event);
    return () => {
      event.action = undefined;
    };
  }

  /** Lets everything happen that is due before `until`, which becomes the time. */
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
