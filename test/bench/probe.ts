// Preloaded into the server under test: tells the bench, when asked, how much memory the process holds.

import { setTimeout as wait } from "node:timers/promises";

/** What one sets free (handles of closed streams, code long unused) only a later one can take. */
const COLLECTIONS = 12;
const REST_MS = 50;

async function tellHeld(): Promise<void> {
  for (let turn = 0; turn < COLLECTIONS; turn++) {
    globalThis.gc?.();
    await wait(REST_MS);
  }
  // ArrayBuffers are part of `external`.
  const { heapUsed, external } = process.memoryUsage();
  process.send?.(heapUsed + external);
}

process.on("message", (asked) => {
  if (asked === "held") void tellHeld();
});
process.channel?.unref();
