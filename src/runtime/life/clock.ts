// The real clock, the real source of randomness, and the idle time of the event loop. All other code takes them as
// arguments.

import { randomFillSync } from "node:crypto";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";

/** Longest delay of a platform timer, in milliseconds. One set to more would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Least time between two looks at the system clock by `wallOf`. */
const COMPARE_EVERY_MS = 1;

/** Alarms do not keep the process alive: listeners do, and so does `run` until it ends. */
export function realClock(): Clock {
  let ahead = Date.now() - performance.now();
  let compared = Number.NEGATIVE_INFINITY;
  // `Date` follows adjustments of the system clock, but has only whole milliseconds. The fraction comes from the
  // monotonic clock, whose offset is corrected whenever the two disagree.
  const wall = (): number => {
    const whole = Date.now();
    const steady = performance.now();
    compared = steady;
    const guess = steady + ahead;
    if (guess >= whole && guess < whole + 1) return guess;
    const shown = guess < whole ? whole : whole + 0.999;
    ahead = shown - steady;
    return shown;
  };
  return {
    now: () => performance.now(),
    wall,
    wallOf(now) {
      if (now - compared >= COMPARE_EVERY_MS) wall();
      return now + ahead;
    },
    alarm(ms, ring) {
      let timer: NodeJS.Timeout;
      const until = performance.now() + ms;
      const wait = (left: number): void => {
        // Timers take whole milliseconds, and may fire early by a fraction of one.
        timer = setTimeout(due, Math.min(Math.ceil(left), LONGEST_TIMER));
        timer.unref();
      };
      const due = (): void => {
        const left = until - performance.now();
        if (left > 0) wait(left);
        else ring();
      };
      wait(Math.max(0, ms));
      return () => clearTimeout(timer);
    },
  };
}

/** Numbers drawn in advance: one system call fills this many. */
const POOL = 1_024;

/**
 * Cryptographically secure: callers see ids of concurrency slots, and hash seeds must not be predictable from them.
 * Each number has 53 random bits, as many as a double holds.
 */
export function realChance(): Chance {
  const pool = new Uint32Array(POOL * 2);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    const high = (pool[at++] ?? 0) >>> 5;
    const low = (pool[at++] ?? 0) >>> 6;
    return (high * 67_108_864 + low) / 9_007_199_254_740_992;
  };
}

/** Milliseconds for which the event loop of this process has had nothing to do. */
export function idleTime(): number {
  return performance.eventLoopUtilization().idle;
}
