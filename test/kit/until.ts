// Waits for a condition that must be polled.

import { setTimeout as sleep } from "node:timers/promises";

const INTERVAL_MS = 5;

/** Polls `holds` until it returns true. Fails when it does not within `ms`. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  ms = 40_000,
): Promise<void> {
  const started = performance.now();
  while (!(await holds())) {
    if (performance.now() - started > ms) throw new Error(`${what}: not within ${ms} ms`);
    await sleep(INTERVAL_MS);
  }
}
