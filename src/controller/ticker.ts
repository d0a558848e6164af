// Turns at a fixed rate without drift: turn k is due at start + k · interval on the monotonic clock. A turn
// whose time has passed when the next one is due is skipped and counted, never queued.

import type { Clock } from "#base/clock.ts";

export interface TickerOptions {
  readonly clock: Clock;
  /** Above 0. */
  readonly intervalMs: number;
  /** One turn, and how many ms after its time it comes. Must not throw. */
  readonly turn: (lateMs: number) => void;
  readonly skipped: (turns: number) => void;
}

/** Turn 0 is now and is the caller's own: the first one that is called is due in one interval. */
export class Ticker {
  readonly #options: TickerOptions;
  readonly #start: number;
  #next = 1;
  #disarm: () => void;

  constructor(options: TickerOptions) {
    this.#options = options;
    this.#start = options.clock.now();
    this.#disarm = this.#arm();
  }

  stop(): void {
    this.#disarm();
    this.#disarm = STOPPED;
  }

  #due(turn: number): number {
    return this.#start + turn * this.#options.intervalMs;
  }

  #arm(): () => void {
    const { clock } = this.#options;
    return clock.alarm(Math.max(0, this.#due(this.#next) - clock.now()), () => this.#ring());
  }

  #ring(): void {
    const { clock, intervalMs, turn, skipped } = this.#options;
    const now = clock.now();
    // An alarm may ring a moment early: it is the turn that it was set for all the same.
    const current = Math.max(this.#next, Math.floor((now - this.#start) / intervalMs));
    if (current > this.#next) skipped(current - this.#next);
    this.#next = current + 1;
    turn(Math.max(0, now - this.#due(current)));
    if (this.#disarm !== STOPPED) this.#disarm = this.#arm();
  }
}

const STOPPED = () => undefined;
