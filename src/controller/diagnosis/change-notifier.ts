// Decides when a condition that comes and goes is reported: once when it begins, once when it ends, and not more
// often than every ten seconds. A change within this time is reported at its end, if it still holds then.

import type { Clock } from "#base/clock.ts";

/** Pause after each report of one condition, ms. */
export const QUIET_MS = 10_000;

export class ChangeNotifier {
  readonly #clock: Clock;
  #reported = false;
  /** On the monotonic clock. */
  #quietUntil: number;

  /** Reports nothing for the first `graceMs`: many conditions hold at a start and pass by themselves. */
  constructor(clock: Clock, graceMs: number) {
    this.#clock = clock;
    this.#quietUntil = clock.now() + graceMs;
  }

  /** Whether the beginning was reported, and not yet the end. */
  get isReported(): boolean {
    return this.#reported;
  }

  /** Call it again and again with the present state. Returns true when that state is to be reported now. */
  isDue(holds: boolean): boolean {
    const now = this.#clock.now();
    if (holds === this.#reported || now < this.#quietUntil) return false;
    this.#reported = holds;
    this.#quietUntil = now + QUIET_MS;
    return true;
  }
}
