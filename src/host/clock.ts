// The real clock, the real dice and the seeds of hashes. Everything else takes them as arguments.

import { randomBytes } from "node:crypto";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";

/** The longest that a timer of the platform can be set to; beyond it, it would ring at once. */
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
    alarm(ms, ring) {
      let timer: NodeJS.Timeout;
      const until = performance.now() + ms;
      const set = (): void => {
        const left = Math.max(0, until - performance.now());
        timer = setTimeout(left > LONGEST_TIMER ? set : ring, Math.min(left, LONGEST_TIMER));
        timer.unref();
      };
      set();
      return () => clearTimeout(timer);
    },
  };
}

export const realChance: Chance = Math.random;

/** An unguessable 32-bit seed, so that callers cannot choose keys that collide. */
export function hashSeed(): number {
  return randomBytes(4).readUInt32LE();
}
