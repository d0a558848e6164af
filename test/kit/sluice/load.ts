// Sends traffic while something is edited, and checks that a token bucket never grants more than its capacity and refill.

import assert from "node:assert/strict";
import { until } from "../until.ts";
import { passes } from "./check.ts";

export interface Bucket {
  readonly controlPoint: string;
  /** Headers that select the bucket, which must be full when the load begins. */
  readonly headers: Readonly<Record<string, string>>;
  readonly capacity: number;
  /** Tokens per second. */
  readonly fill: number;
}

/** Number of checks beyond the bucket's capacity that are sent before the edit, and after it. */
const AROUND = 10;

/**
 * Sends checks one after the other before, during and after `edit`. Fails when more pass than capacity and refill
 * allow, or when the bucket was never emptied.
 */
export async function underLoad(
  address: string,
  { controlPoint, headers, capacity, fill }: Bucket,
  edit: () => Promise<void>,
): Promise<void> {
  const began = performance.now();
  const counts = { passed: 0, sent: 0 };
  const stop = new AbortController();
  const sending = (async () => {
    while (!stop.signal.aborted) {
      if (await passes(address, controlPoint, headers)) counts.passed += 1;
      counts.sent += 1;
    }
  })();
  const more = (count: number) => {
    const wanted = counts.sent + count;
    return until("the load goes on", () => counts.sent >= wanted);
  };
  try {
    await Promise.race([sending, more(capacity + AROUND)]);
    await edit();
    await Promise.race([sending, more(AROUND)]);
  } finally {
    stop.abort();
    await sending;
  }
  const most = capacity + (fill * (performance.now() - began)) / 1_000;
  const { passed, sent } = counts;
  assert.ok(passed <= most, `${passed} of ${sent} passed, at most ${most} may`);
  assert.ok(passed >= capacity, `${passed} of ${sent} passed, the bucket holds ${capacity}`);
}
