// The real surroundings of a process: its arguments, signals and way out.

import type { Clock } from "#base/clock.ts";
import type { Surroundings } from "./run.ts";

/** Timers of this length never ring in practice; they only keep the event loop from running dry. */
const FOR_EVER = 2 ** 30;

export function surroundings(clock: Clock): Surroundings {
  return {
    argv: process.argv.slice(2),
    env: process.env,
    clock,
    stderr: (text) => void process.stderr.write(text),
    exit: (code) => process.exit(code),
    on: (event, listener) => void process.on(event, listener),
    off: (event, listener) => void process.off(event, listener),
    hold() {
      const timer = setInterval(() => undefined, FOR_EVER);
      return () => clearInterval(timer);
    },
  };
}
