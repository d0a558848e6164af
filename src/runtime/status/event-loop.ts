// The check that the event loop turns: while it is stuck, every caller waits.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";

/** Time between two looks at the event loop, in ms: delays that are much shorter are not of interest here. */
const LOOK_MS = 1_000;

export interface EventLoopCheck {
  /** The check. Throws UNAVAILABLE if an alarm came too late since the call before. */
  run(): string;
  close(): void;
}

/** The check fails after a delay of more than `mostMs`; 0 or less means no limit. */
export function watchEventLoop(clock: Clock, mostMs: number): EventLoopCheck {
  let due = clock.now() + LOOK_MS;
  let longest = 0;
  const look = () => {
    const now = clock.now();
    longest = Math.max(longest, now - due);
    due = now + LOOK_MS;
    return clock.alarm(LOOK_MS, ring);
  };
  const ring = () => {
    disarm = look();
  };
  let disarm = clock.alarm(LOOK_MS, ring);
  return {
    run() {
      // The check itself may be the first that runs after a delay.
      const delay = Math.round(Math.max(longest, clock.now() - due));
      longest = 0;
      if (mostMs <= 0 || delay <= mostMs) return `longest delay ${Math.max(0, delay)} ms`;
      due = clock.now() + LOOK_MS;
      throw new Fault("UNAVAILABLE", `the event loop was stuck for ${delay} ms`);
    },
    close: () => disarm(),
  };
}
