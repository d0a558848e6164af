// Calls a function at a fixed rate without drift: turn k is due at start + k · interval on the monotonic clock. Missed turns
// are skipped and counted, never queued. Each turn is followed by a pause of nine times its duration, so that turns use at
// most a tenth of a core, whatever the interval.

import type { Clock } from "#base/clock.ts";
import { ChangeNotifier } from "../diagnosis/notifier.ts";

/** The pause after a turn, in durations of that turn. */
const PAUSE_RATIO = 9;

/** The interval is reported as too short after this many consecutive turns that were too long for it. */
const TOO_LONG_TURNS = 3;

/** Work that is due again and again. */
interface Scheduled {
  /** When to run it next, on the monotonic clock. Changes only in `run`. */
  readonly due: number;
  /** Runs it once. Returns whether it goes on. */
  run(): boolean;
}

/**
 * Runs due work in order with a single timer. Thousands of policies tick, and a timer for each turn would be garbage that lives
 * just long enough to reach the old generation of the heap.
 */
export class Schedule {
  readonly clock: Clock;
  /** The last one is due first. */
  readonly #waiting: Scheduled[] = [];
  /** When the timer fires, on the monotonic clock; infinite without one. */
  #alarmAt = Number.POSITIVE_INFINITY;
  #disarm = NOTHING;
  readonly #ring = () => this.#run();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  add(work: Scheduled): void {
    this.#insert(work);
    this.#arm();
  }

  remove(work: Scheduled): void {
    const at = this.#waiting.indexOf(work);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#arm();
  }

  #run(): void {
    // A timer may fire slightly early, and still runs the work for which it was set.
    const due = Math.max(this.#alarmAt, this.clock.now());
    this.#alarmAt = Number.POSITIVE_INFINITY;
    // Turns that become due meanwhile run with the next timer, after other work of this thread.
    for (let left = this.#waiting.length; left > 0; left--) {
      const next = this.#waiting.at(-1);
      if (next === undefined || next.due > due) break;
      this.#waiting.pop();
      if (next.run()) this.#insert(next);
    }
    this.#arm();
  }

  #arm(): void {
    const next = this.#waiting.at(-1)?.due ?? Number.POSITIVE_INFINITY;
    if (next === this.#alarmAt) return;
    this.#disarm();
    this.#disarm = NOTHING;
    this.#alarmAt = next;
    if (next === Number.POSITIVE_INFINITY) return;
    this.#disarm = this.clock.alarm(Math.max(0, next - this.clock.now()), this.#ring);
  }

  #insert(work: Scheduled): void {
    let [low, high] = [0, this.#waiting.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#waiting[middle]?.due ?? 0) > work.due) low = middle + 1;
      else high = middle;
    }
    this.#waiting.splice(low, 0, work);
  }
}

const NOTHING = (): void => undefined;

interface TickerOptions {
  readonly schedule: Schedule;
  /** Above 0. */
  readonly intervalMs: number;
  /** When turn 0 began, on the monotonic clock, and how long it took. The caller has run it itself. */
  readonly since: number;
  readonly firstTookMs: number;
  /** Runs one turn, `lateMs` after its time. Must not throw. */
  readonly turn: (lateMs: number) => void;
  readonly skipped: (turns: number) => void;
  /** Called when turns become too long for the interval, or short enough again. `tookMs` is the duration of the last one. */
  readonly pace: (keeps: boolean, tookMs: number) => void;
}

/** The first call is turn 1, one interval after turn 0. */
export class Ticker implements Scheduled {
  readonly #options: TickerOptions;
  readonly #paceNotifier: ChangeNotifier;
  #next = 1;
  /** The end of the pause after the last turn, on the monotonic clock. */
  #pausedUntil = 0;
  /** Turns in a row that were too long. */
  #tooLong = 0;
  #stopped = false;

  constructor(options: TickerOptions) {
    const { schedule, since, firstTookMs } = options;
    this.#options = options;
    this.#paceNotifier = new ChangeNotifier(schedule.clock, 0);
    this.#pause(since + firstTookMs, firstTookMs);
    schedule.add(this);
  }

  /** When the next turn is to begin, on the monotonic clock. */
  get due(): number {
    return Math.max(this.#pausedUntil, this.#dueOf(this.#next));
  }

  stop(): void {
    this.#stopped = true;
    this.#options.schedule.remove(this);
  }

  run(): boolean {
    const { schedule, intervalMs, since, turn, skipped } = this.#options;
    const { clock } = schedule;
    const now = clock.now();
    const current = Math.max(this.#next, Math.floor((now - since) / intervalMs));
    if (current > this.#next) skipped(current - this.#next);
    this.#next = current + 1;
    turn(Math.max(0, now - this.#dueOf(current)));
    const end = clock.now();
    this.#pause(end, end - now);
    return !this.#stopped;
  }

  #dueOf(turn: number): number {
    return this.#options.since + turn * this.#options.intervalMs;
  }

  /** Sets the pause after a turn that ended at `end` and took `took` ms. */
  #pause(end: number, took: number): void {
    const { intervalMs, pace } = this.#options;
    this.#pausedUntil = end + PAUSE_RATIO * took;
    this.#tooLong = took + PAUSE_RATIO * took > intervalMs ? this.#tooLong + 1 : 0;
    const isBehind = this.#tooLong >= TOO_LONG_TURNS;
    // One or two long turns change nothing.
    if (this.#tooLong > 0 && !isBehind) return;
    if (this.#paceNotifier.isDue(isBehind)) pace(!isBehind, took);
  }
}
