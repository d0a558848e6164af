// The keys of one limiter whose limits are learned are bounded, and keys that know nothing make room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AdaptiveLimits } from "#flow/counters/adaptive-limits.ts";
import { BOUNDS } from "./limits.ts";

const MOST = 16_384;

/** Lets a key learn that flows take 10 ms, with a limit that all of them reach. */
function teach(limits: AdaptiveLimits, lo: number, from: number): void {
  const key = limits.of(lo, 0, BOUNDS, from);
  for (let at = from; at < from + 3_000; at += 10) {
    key.refused(at);
    key.ended(10, 1, at);
  }
}

test("further keys share one limit, whatever number of them is invented", () => {
  const limits = new AdaptiveLimits(1_000_000);
  for (let lo = 1; lo <= MOST; lo++) teach(limits, lo, 0);
  for (let lo = MOST + 1; lo <= 2 * MOST; lo++) limits.of(lo, 0, BOUNDS, 3_000);
  assert.equal(limits.summary(3_000)?.keys, MOST + 1, "and the shared one");
  assert.equal(limits.of(MOST + 1, 0, BOUNDS, 3_000), limits.of(MOST + 2, 0, BOUNDS, 3_000));
  assert.ok(limits.limit(1, 0, BOUNDS, 3_000) > BOUNDS.start, "what was learned is kept");
});

test("keys that know nothing, or nothing any more, make room for others", () => {
  const limits = new AdaptiveLimits(10);
  for (let lo = 1; lo <= 10; lo++) limits.of(lo, 0, BOUNDS, 0);
  teach(limits, 11, 0);
  assert.ok(limits.limit(11, 0, BOUNDS, 3_000) > BOUNDS.start);
  assert.ok((limits.summary(3_000)?.keys ?? 0) <= 10);
  for (let lo = 20; lo < 30; lo++) teach(limits, lo, 3_000);
  const later = 3_000 + 3_000 + 600_001;
  const fresh = limits.of(40, 0, BOUNDS, later);
  assert.notEqual(fresh, limits.of(41, 0, BOUNDS, later), "they do not share");
});
