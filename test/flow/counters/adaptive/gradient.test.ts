// One adaptive limit by itself, flow by flow.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Gradient } from "#flow/counters/adaptive/gradient.ts";

const BOUNDS = { min: 2, max: 100, start: 40, tolerance: 1.5 };

/** A limit that has seen flows of 100 ms. */
function known(): Gradient {
  const gradient = new Gradient(BOUNDS, 0);
  for (let flow = 0; flow < 20; flow++) gradient.ended(100, 1, 2_000);
  assert.equal(gradient.baseline, 100);
  return gradient;
}

it("is cut once where most slots expire, and again only after those of the earlier limit have left", () => {
  const gradient = known();
  for (let slot = 0; slot < 19; slot++) gradient.expired(1, 3_000);
  assert.equal(gradient.limit(3_000), 40, "too few");
  gradient.expired(1, 3_000);
  assert.equal(gradient.limit(3_000), 20);
  // A quarter more than were in flight at 40 may still hang because of it.
  for (let slot = 0; slot < 50; slot++) gradient.expired(1, 3_000);
  assert.equal(gradient.limit(3_000), 20);
  for (let slot = 0; slot < 20; slot++) gradient.expired(1, 4_000);
  assert.equal(gradient.limit(4_000), 10);
});

it("is not cut for slots that expire beside as many that end", () => {
  const gradient = known();
  for (let flow = 0; flow < 100; flow++) {
    gradient.ended(100, 1, 2_100);
    gradient.expired(1, 2_100);
  }
  assert.equal(gradient.limit(2_100), 40);
});

it("is not cut for slots that expire before any flow has ended: nobody may be reporting ends", () => {
  const gradient = new Gradient(BOUNDS, 0);
  for (let slot = 0; slot < 1_000; slot++) gradient.expired(1, slot * 10);
  assert.equal(gradient.limit(10_000), 40);
});

it("follows slow flows a tenth of the way in each step where it is at its floor and cannot tell why they are slow", () => {
  const gradient = new Gradient({ ...BOUNDS, min: 40 }, 0);
  for (let flow = 0; flow < 20; flow++) gradient.ended(100, 1, 2_000);
  for (const [now, wanted] of [
    [4_000, 110],
    [6_000, 119],
  ] as const) {
    gradient.passed(40, now);
    for (let flow = 0; flow < 20; flow++) gradient.ended(200, 1, now);
    assert.deepEqual([gradient.baseline, gradient.limit(now)], [wanted, 40]);
  }
});
