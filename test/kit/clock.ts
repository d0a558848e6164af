// A clock that stands still until a test advances it.

import type { Clock } from "#base/clock.ts";

export interface FakeClock extends Clock {
  /** Advances the time and runs the alarms that fall due, in order. */
  advance(ms: number): void;
  /** Number of alarms that are still set. */
  readonly alarms: number;
}

export function fakeClock(start = 1_000_000, wall = 1_700_000_000_000): FakeClock {
  let now = start;
  let alarms: { readonly at: number; readonly ring: () => void }[] = [];
  return {
    now: () => now,
    wall: () => wall + (now - start),
    wallOf: (at) => wall + (at - start),
    alarm(ms, ring) {
      const alarm = { at: now + ms, ring };
      alarms.push(alarm);
      return () => {
        alarms = alarms.filter((other) => other !== alarm);
      };
    },
    advance(ms) {
      const until = now + ms;
      for (;;) {
        const due = alarms.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        alarms = alarms.filter((other) => other !== due);
        now = Math.max(now, due.at);
        due.ring();
      }
      now = until;
    },
    get alarms() {
      return alarms.length;
    },
  };
}
