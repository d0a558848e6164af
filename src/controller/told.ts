// What was told of a state that comes and goes: when it begins and when it ends, and no more often than people
// can read. A state that has changed meanwhile is told when its time has come.

import type { Clock } from "#base/clock.ts";

/** Between two lines about one state, ms. */
export const QUIET_MS = 10_000;

export class Told {
  readonly #clock: Clock;
  #told = false;
  /** On the monotonic clock. */
  #quietUntil: number;

  /** Nothing is told within `patienceMs` from now: much is amiss at a start that is well in a moment. */
  constructor(clock: Clock, patienceMs: number) {
    this.#clock = clock;
    this.#quietUntil = clock.now() + patienceMs;
  }

  /** To be called again and again. True where it is time to tell how it is. */
  isNews(holds: boolean): boolean {
    const now = this.#clock.now();
    if (holds === this.#told || now < this.#quietUntil) return false;
    this.#told = holds;
    this.#quietUntil = now + QUIET_MS;
    return true;
  }
}
