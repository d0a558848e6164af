// Memory of limiters with many keys, and that invented keys do not free blocked ones.

import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { ConcurrencyState } from "#flow/limit/concurrency-limiter.ts";
import { RateState } from "#flow/limit/rate-limiter.ts";
import { heldBytes } from "../../kit/attack/memory.ts";
import { Bench, concurrency, concurrencyRule, rate, rateRule, testContext } from "./setup.ts";

const KEYED = rateRule({ limitByLabelKey: "k" });

const SIZES = [
  50_000, 60_000, 70_000, 85_000, 100_000, 150_000, 200_000, 300_000, 500_000, 700_000, 1_000_000,
];

/** One token or one slot for each of so many keys. The code itself is warm before anything is measured. */
function fill(bench: Bench, warm: Bench): void {
  for (let key = 0; key < 5_000; key++) warm.take({ k: `user-${key}` });
  const before = heldBytes();
  let key = 0;
  for (const size of SIZES) {
    while (key < size) bench.take({ k: `user-${key++}` });
    const perKey = (heldBytes() - before) / size;
    assert.ok(perKey > 28 && perKey <= 64, `${perKey} bytes per key of ${size}`);
  }
}

describe("at most 64 bytes per key, at every size from fifty thousand to a million", () => {
  it("in rate limiters", () => {
    const bench = new Bench(KEYED, rate(5, 0), testContext(2_000_000));
    fill(bench, new Bench(KEYED, rate(5, 0), testContext(2_000_000)));
    assert.ok(bench.state instanceof RateState);
    assert.equal(bench.state.buckets.keys, 1_000_000);
    assert.equal(bench.take({ k: "user-77" }).remaining, 3);
    assert.equal(bench.take({ k: "x".repeat(100_000) }).remaining, 4);
  });

  it("in concurrency limiters", () => {
    const rule = concurrencyRule({ limitByLabelKey: "k" });
    const bench = new Bench(rule, concurrency(5), testContext(2_000_000));
    fill(bench, new Bench(rule, concurrency(5), testContext(2_000_000)));
    assert.ok(bench.state instanceof ConcurrencyState);
    assert.equal(bench.state.slots.keys, 1_000_000);
    assert.equal(bench.take({ k: "user-77" }).remaining, 4);
    assert.equal(bench.take({ k: "x".repeat(100_000) }).remaining, 5);
  });
});

test("small limiters are small", () => {
  const context = testContext();
  const before = heldBytes();
  const benches = Array.from({ length: 1_000 }, (_, index) => {
    const bench =
      index % 2 === 0
        ? new Bench(KEYED, rate(5, 0), context)
        : new Bench(concurrencyRule({ limitByLabelKey: "k" }), concurrency(3), context);
    bench.take({ k: "one" });
    return bench;
  });
  const each = (heldBytes() - before) / benches.length;
  assert.ok(each < 4_000, `${each} bytes each`);
});

test("ten million invented keys do not free a blocked one", () => {
  let overflowed = 0;
  const observer = { ...testContext().observer, anomaly: () => overflowed++ };
  const bench = new Bench(KEYED, rate(2, 0), { ...testContext(10_000), observer });
  const blocked = Array.from({ length: 50 }, (_, index) => `blocked-${index}`);
  for (const k of blocked) for (let again = 0; again < 2; again++) bench.take({ k });
  // The invented ones go past the labels, straight to the buckets: ten million are many.
  assert.ok(bench.state instanceof RateState);
  const { buckets } = bench.state;
  const params: BucketParams = {
    capacity: 2,
    amount: 0,
    intervalMs: KEYED.intervalMs,
    continuous: true,
    delayed: false,
    maxIdleMs: KEYED.maxIdleMs,
    lazySyncs: KEYED.lazySyncs,
  };
  const now = bench.context.clock.now();
  let passed = 0;
  for (let key = 0; key < 10_000_000; key++) {
    if (buckets.take(`invented-${key}`, 1, params, now).outcome === "granted") passed++;
    if (key % 1_000_000 === 0) for (const k of blocked) assert.ok(bench.take({ k }).dropped, k);
  }
  for (const k of blocked) assert.ok(bench.take({ k }).dropped, k);
  // No bucket is ever filled here, so what the invented ones get is bounded for good.
  assert.ok(passed < 40_000, `${passed} passed`);
  assert.equal(buckets.keys, 10_000);
  assert.equal(
    overflowed,
    passed - (10_000 - blocked.length),
    "each of them takes the place of another",
  );
});
