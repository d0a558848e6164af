// Traffic while something is edited: whatever happens meanwhile, a bucket gives no more than it held and got.

import assert from "node:assert/strict";
import { passes } from "./check.ts";
import { until } from "./port.ts";

export interface Bucket {
  readonly controlPoint: string;
  /** Tells the bucket; it must be untouched when the load begins. */
  readonly headers: Readonly<Record<string, string>>;
  readonly capacity: number;
  /** Tokens a second. */
  readonly fill: number;
}

/** Checks that are sent before the edit begins and after it ended, beyond the bucket's capacity. */
const AROUND = 10;

/**
 * Sends one check after the other while `edit` runs, with some before and some after. Fails when more passed
 * than capacity and refill allow, or when the bucket never was emptied.
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
