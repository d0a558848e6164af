// Calls a function at a fixed rate without drift: turn k is due at start + k · interval on the monotonic clock. A
// turn whose time has passed when the next one is due is skipped and counted, never queued. Each turn is followed
// by a pause of nine times its duration, so that turns take a tenth of a core at most, whatever the interval.

import type { Clock } from "#base/clock.ts";
import { ChangeNotifier } from "./change-notifier.ts";

/** The pause after a turn, in durations of that turn. */
const PAUSE_RATIO = 9;

/** The pace is reported as too fast after this many turns in a row that were too long for it. */
const TOO_LONG_TURNS = 3;

export interface TickerOptions {
  readonly clock: Clock;
  /** Above 0. */
  readonly intervalMs: number;
  /** When turn 0 began, on the monotonic clock, and how long it took. The caller has run it itself. */
  readonly since: number;
  readonly firstTookMs: number;
  /** Runs one turn, which comes `lateMs` after its time. Must not throw. */
  readonly turn: (lateMs: number) => void;
  readonly skipped: (turns: number) => void;
  /** Turns have become too long for the interval, or short enough again. `tookMs`: duration of the last one. */
  readonly pace: (keeps: boolean, tookMs: number) => void;
}

/** The first call is turn 1, one interval after turn 0. */
export class Ticker {
  readonly #options: TickerOptions;
  readonly #paceNotifier: ChangeNotifier;
  #next = 1;
  /** The end of the pause after the last turn, on the monotonic clock. */
  #pausedUntil = 0;
  /** Turns in a row that were too long. */
  #tooLong = 0;
  #disarm: () => void;

  constructor(options: TickerOptions) {
    this.#options = options;
    this.#paceNotifier = new ChangeNotifier(options.clock, 0);
    this.#pause(options.since + options.firstTookMs, options.firstTookMs);
    this.#disarm = this.#arm();
  }

  /** When the next turn is to begin, on the monotonic clock. */
  get due(): number {
    return Math.max(this.#pausedUntil, this.#dueOf(this.#next));
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
    const least = now < this.#pausedUntil ? 1 : 0;
    return clock.alarm(Math.max(least, this.due - now), () => this.#ring());
  }

  #ring(): void {
    const { clock, intervalMs, since, turn, skipped } = this.#options;
    const now = clock.now();
    if (now >= this.#pausedUntil) {
      // An alarm may ring a moment early; the turn is still the one that it was set for.
      const current = Math.max(this.#next, Math.floor((now - since) / intervalMs));
      if (current > this.#next) skipped(current - this.#next);
      this.#next = current + 1;
      turn(Math.max(0, now - this.#dueOf(current)));
      const end = clock.now();
      this.#pause(end, end - now);
    }
    if (this.#disarm !== STOPPED) this.#disarm = this.#arm();
  }

  /** Sets the pause after a turn that ended at `end` and took `took` ms. */
  #pause(end: number, took: number): void {
    const { intervalMs, pace } = this.#options;
    this.#pausedUntil = end + PAUSE_RATIO * took;
    this.#tooLong = took + PAUSE_RATIO * took > intervalMs ? this.#tooLong + 1 : 0;
    const isBehind = this.#tooLong >= TOO_LONG_TURNS;
    // After one or two long turns the last report stands.
    if (this.#tooLong > 0 && !isBehind) return;
    if (this.#paceNotifier.isDue(isBehind)) pace(!isBehind, took);
  }
}

const STOPPED = () => undefined;
