// Turns at a fixed rate without drift: turn k is due at start + k · interval on the monotonic clock. A turn
// whose time has passed when the next one is due is skipped and counted, never queued. After each turn there is
// a rest of nine times its duration, so that turns take a tenth of a core at most, whatever the interval.

import type { Clock } from "#base/clock.ts";
import { Told } from "./told.ts";

/** After a turn, in durations of that turn. */
const REST = 9;

/** So many turns in a row that are too long for the interval are no accident. */
const TOO_LONG = 3;

export interface TickerOptions {
  readonly clock: Clock;
  /** Above 0. */
  readonly intervalMs: number;
  /** When turn 0 began, on the monotonic clock. It was the caller's own, and is over by now. */
  readonly since: number;
  /** One turn, and how many ms after its time it comes. Must not throw. */
  readonly turn: (lateMs: number) => void;
  readonly skipped: (turns: number) => void;
  /** Turns, the last of which took so many ms, have become too long for the interval, or short enough again. */
  readonly pace: (keeps: boolean, tookMs: number) => void;
}

/** The first turn that is called is due one interval after turn 0. */
export class Ticker {
  readonly #options: TickerOptions;
  readonly #behind: Told;
  #next = 1;
  /** No turn begins before this. */
  #rested = 0;
  /** Turns in a row that were too long. */
  #tooLong = 0;
  #disarm: () => void;

  constructor(options: TickerOptions) {
    this.#options = options;
    this.#behind = new Told(options.clock, 0);
    this.#rest(options.since);
    this.#disarm = this.#arm();
  }

  /** When the next turn is to begin, on the monotonic clock. */
  get due(): number {
    return Math.max(this.#rested, this.#dueOf(this.#next));
  }

  stop(): void {
    this.#disarm();
    this.#disarm = STOPPED;
  }

  #dueOf(turn: number): number {
    return this.#options.since + turn * this.#options.intervalMs;
  }

  #arm(): () => void {
    const { clock } = this.#options;
    const now = clock.now();
    const least = now < this.#rested ? 1 : 0;
    return clock.alarm(Math.max(least, this.due - now), () => this.#ring());
  }

  #ring(): void {
    const { clock, intervalMs, since, turn, skipped } = this.#options;
    const now = clock.now();
    if (now >= this.#rested) {
      // An alarm may ring a moment early: it is the turn that it was set for all the same.
      const current = Math.max(this.#next, Math.floor((now - since) / intervalMs));
      if (current > this.#next) skipped(current - this.#next);
      this.#next = current + 1;
      turn(Math.max(0, now - this.#dueOf(current)));
      this.#rest(now);
    }
    if (this.#disarm !== STOPPED) this.#disarm = this.#arm();
  }

  /** After the turn that began at that time. */
  #rest(began: number): void {
    const { clock, intervalMs, pace } = this.#options;
    const now = clock.now();
    const took = now - began;
    this.#rested = now + REST * took;
    this.#tooLong = took + REST * took > intervalMs ? this.#tooLong + 1 : 0;
    const behind = this.#tooLong >= TOO_LONG;
    // Between the two, what was told last stands.
    if (this.#tooLong > 0 && !behind) return;
    if (this.#behind.isNews(behind)) pace(!behind, took);
  }
}

const STOPPED = () => undefined;
