import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { RefillHistory } from "#flow/counters/local/refill-history.ts";
import {
  delayedMark,
  fill,
  filled,
  markAt,
  timeFor,
  waitFor,
} from "#flow/counters/local/token-bucket.ts";

const PARAMS: BucketParams = {
  capacity: 10,
  amount: 4,
  intervalMs: 1_000,
  continuous: true,
  delayed: false,
  maxIdleMs: 0,
  lazySyncs: 0,
};
const STEPPED = { ...PARAMS, continuous: false };

function steady(params: BucketParams, since = 0): RefillHistory {
  const refill = new RefillHistory();
  refill.change(since, params.amount, params.intervalMs);
  return refill;
}

test("continuous fill", () => {
  const refill = steady(PARAMS);
  assert.equal(markAt(100, 350, PARAMS), 350);
  assert.equal(filled(1, 100, 350, PARAMS, refill), 2);
  assert.equal(filled(9, 0, 5_000, PARAMS, refill), 10);
  assert.equal(timeFor(6, PARAMS), 1_500);
  assert.equal(waitFor(6, 350, 350, PARAMS), 1_500);
});

test("interval fill: whole amounts at the ends of intervals", () => {
  const refill = steady(STEPPED);
  assert.equal(markAt(100, 1_099, STEPPED), 100);
  assert.equal(markAt(100, 1_100, STEPPED), 1_100);
  assert.equal(markAt(100, 3_500, STEPPED), 3_100);
  assert.equal(filled(1, 100, 2_100, STEPPED, refill), 9);
  assert.equal(filled(1, 100, 100, STEPPED, refill), 1);
  assert.equal(timeFor(6, STEPPED), 2_000);
  assert.equal(waitFor(6, 100, 350, STEPPED), 1_750);
});

test("nothing is filled: no time tells when", () => {
  const none = { ...PARAMS, amount: 0 };
  assert.equal(timeFor(5, none), 0);
  assert.equal(waitFor(5, 0, 0, none), 0);
  assert.equal(filled(3, 0, 1e9, none, steady(none)), 3);
});

test("a lowered capacity caps what is there", () => {
  assert.equal(filled(10, 5, 5, { ...PARAMS, capacity: 3 }, steady(PARAMS)), 3);
});

test("a delayed fill waits for the time that filling takes, then fills at once", () => {
  assert.equal(delayedMark(1_000, PARAMS), 3_500);
  assert.equal(markAt(3_500, 2_000, PARAMS), 3_500);
  assert.equal(filled(7, 3_500, 3_500, PARAMS, steady(PARAMS)), 7);
  assert.equal(waitFor(1, 3_500, 1_000, PARAMS), 2_750);
  // ceil(10 / 4) = 3 intervals; the first amount lands at their end.
  const mark = delayedMark(1_000, STEPPED);
  assert.equal(markAt(mark, 3_999, STEPPED), mark);
  assert.equal(filled(1, mark, markAt(mark, 4_000, STEPPED), STEPPED, steady(STEPPED)), 5);
  assert.equal(waitFor(1, mark, 1_000, STEPPED), 3_000);
});

test("times stay finite", () => {
  const slow = { ...PARAMS, amount: 1e-300 };
  assert.ok(Number.isFinite(timeFor(1e12, slow)));
  assert.ok(Number.isFinite(delayedMark(0, slow)));
});

test("a caller that waits as reported then gets its tokens", () => {
  fc.assert(
    fc.property(
      fc.record({
        capacity: fc.double({ min: 0, max: 1e6, noNaN: true }),
        amount: fc.double({ min: 10, max: 1e6, noNaN: true }),
        intervalMs: fc.integer({ min: 1, max: 3_600_000 }),
        continuous: fc.boolean(),
        delayed: fc.boolean(),
        maxIdleMs: fc.constant(0),
        lazySyncs: fc.constant(0),
      }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.integer({ min: 0, max: 10_000_000 }),
      (params, part, wanted, age) => {
        const available = params.capacity * part;
        const want = params.capacity * wanted;
        const start = 1_000_000;
        const mark = markAt(start, start + age, params);
        const now = start + age;
        const refill = steady(params, start);
        const deficit = want - filled(available, start, mark, params, refill);
        if (deficit <= 0) return;
        const later = now + waitFor(deficit, mark, now, params);
        const next = markAt(mark, later, params);
        const there = filled(want - deficit, mark, next, params, refill);
        assert.ok(there >= want * (1 - 1e-6) - 1e-6, `${there} of ${want}`);
      },
    ),
  );
});

test("a new rate counts from when it came", () => {
  const refill = new RefillHistory();
  refill.change(1_000, 10, 1_000);
  refill.change(2_000, 0, 1_000);
  refill.change(5_000, 100, 1_000);
  assert.equal(refill.between(1_500, 1_700), 2);
  assert.equal(refill.between(1_500, 6_000), 105);
  assert.equal(refill.between(3_000, 5_000), 0);
  assert.equal(refill.between(5_500, 5_600), 10);
  // Interval fill shares the memory: one interval at 10, three at none, one at 100 per second.
  const params = { ...STEPPED, capacity: 1_000, amount: 100 };
  assert.equal(filled(0, 1_000, markAt(1_000, 6_400, params), params, refill), 110);
});

test("many changes: old detail goes, sums stay", () => {
  const refill = new RefillHistory();
  let total = 0;
  const totals = [0];
  for (let second = 0; second < 500; second++) {
    refill.change(second * 1_000, second % 7, 1_000);
    total += second % 7;
    totals.push(total);
  }
  const end = 500_000;
  assert.ok(Math.abs(refill.between(0, end) - total) < 1e-6);
  for (const second of [480, 490, 499]) {
    const wanted = total - (totals[second] ?? 0);
    assert.ok(Math.abs(refill.between(second * 1_000, end) - wanted) < 1e-6);
  }
  // Long ago: within the swing of the few changes that were merged.
  assert.ok(Math.abs(refill.between(250_000, end) - (total - (totals[250] ?? 0))) < 6 * 128);
});

test("a bucket that is filled in place gets what `filled` and `markAt` say, before and after a change of rate", () => {
  const time = fc.double({ min: 0, max: 10_000, noNaN: true });
  fc.assert(
    fc.property(time, time, time, fc.boolean(), (start, changed, now, continuous) => {
      const params = { ...PARAMS, continuous };
      const refill = steady({ ...params, amount: 9 });
      refill.change(changed, params.amount, params.intervalMs);
      const next = markAt(start, now, params);
      const wanted = [filled(3, start, next, params, refill), next];
      const doubles = Float64Array.of(-1, 3, start, -1);
      fill(doubles, 1, now, params, refill);
      assert.deepEqual([...doubles], [-1, ...wanted, -1]);
    }),
  );
});
