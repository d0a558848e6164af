// Waiting for what has to be asked for.

import { setTimeout as sleep } from "node:timers/promises";

/** Asks again and again until the answer is yes; fails when it never is. */
export async function eventually(
  what: string,
  holds: () => Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const started = performance.now();
  while (!(await holds())) {
    if (performance.now() - started > ms) throw new Error(`${what}: not within ${ms} ms`);
    await sleep(10);
  }
}
