// Preloaded into the server under test: tells the bench, when asked, how much memory the process holds.

import { setTimeout as wait } from "node:timers/promises";

/** What one sets free (handles of closed streams, code long unused) only a later one can take. */
const COLLECTIONS = 12;
const REST_MS = 50;

process.on("message", async (asked) => {
  if (asked !== "held") return;
  for (let turn = 0; turn < COLLECTIONS; turn++) {
    globalThis.gc?.();
    await wait(REST_MS);
  }
  // ArrayBuffers are part of `external`.
  const { heapUsed, external } = process.memoryUsage();
  process.send?.(heapUsed + external);
});
process.channel?.unref();
