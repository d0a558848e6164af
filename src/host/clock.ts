// The real clock and the real dice. Everything else takes them as arguments.

import { randomFillSync } from "node:crypto";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";

/** The longest that a timer of the platform can be set to, ms; beyond it, it would ring at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Alarms do not keep the process alive: listeners do, and `run` until it ends. */
export function realClock(): Clock {
  let ahead = Date.now() - performance.now();
  return {
    now: () => performance.now(),
    // `Date` follows when the system's clock is set, but knows whole milliseconds only. The steady clock
    // lends the fraction and is moved whenever the two disagree.
    wall() {
      const whole = Date.now();
      const steady = performance.now();
      const guess = steady + ahead;
      if (guess >= whole && guess < whole + 1) return guess;
      const shown = guess < whole ? whole : whole + 0.999;
      ahead = shown - steady;
      return shown;
    },
    // Steps of the system's clock on the way are not looked for: times of one piece of work fit together.
    wallSince: (wall) => Math.max(wall, performance.now() + ahead),
    alarm(ms, ring) {
      let timer: NodeJS.Timeout;
      const until = performance.now() + ms;
      const wait = (left: number): void => {
        // Timers know whole milliseconds, and may still be early by a fraction of one.
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

/** Dice are thrown in advance: one call into the system fills this many. */
const POOL = 1_024;

/**
 * Unguessable dice: ids of slots are shown to callers, and seeds of hashes must not follow from them.
 * 53 bits each, as many as a number holds.
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
