// The table of buckets of a rate limiter: its bound on keys, buckets that are forgotten, and tokens that come back later.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Bench, counts, rate, rateRule, testContext } from "./setup.ts";

test("no bucket is forgotten because nobody uses it", () => {
  const bench = new Bench(rateRule({ limitByLabelKey: "k", maxIdleMs: 60_000 }), rate(1, 0));
  const unkeyed = new Bench(rateRule({ maxIdleMs: 60_000 }), rate(1, 0), bench.context);
  for (const one of [bench, unkeyed]) {
    one.take({ k: "a" });
    bench.context.clock.advance(1e9);
    assert.equal(one.peek({ k: "a" }).dropped, true);
    assert.equal(one.take({ k: "a" }).dropped, true);
  }
});

test("tokens of a key go back to the bucket of that key, and no further than its capacity", () => {
  const bench = new Bench(rateRule({ limitByLabelKey: "k", tokensLabelKey: "cost" }), rate(5, 0));
  const left = (k: string) => bench.peek({ k, cost: "0" }).remaining;
  const a = bench.take({ k: "a", cost: "3" });
  const b = bench.take({ k: "b", cost: "4" });
  bench.undo(a);
  assert.deepEqual([left("a"), left("b")], [5, 1]);
  bench.undo(b);
  bench.undo(b);
  assert.deepEqual([left("a"), left("b")], [5, 5]);
  assert.deepEqual(counts(bench.take({ k: "b", cost: "5" })), [false, 0, 5, 5, 0]);
  assert.equal(bench.take({ k: "b", cost: "1" }).dropped, true);
});

test("a full table: further keys have limits of their own, and those that it forgot keep theirs", () => {
  const rule = rateRule({ limitByLabelKey: "k", tokensLabelKey: "cost" });
  const bench = new Bench(rule, rate(2, 0), testContext(3));
  for (const k of ["a", "b", "c"]) assert.equal(bench.take({ k }).remaining, 1);
  assert.equal(bench.take({ k: "big", cost: "3" }).remaining, 2, "refused: needs no place");
  assert.deepEqual(bench.context.anomalies, []);
  assert.deepEqual(counts(bench.peek({ k: "d" })), [false, 1, 1, 1, 0]);
  const d = bench.take({ k: "d" });
  assert.deepEqual([d.label, d.remaining], ["k:d", 1]);
  assert.deepEqual(bench.context.anomalies, ["keys_overflow"]);
  bench.undo(d);
  for (const k of ["a", "b", "c"]) assert.equal(bench.take({ k }).remaining, 0, k);
  for (const k of ["a", "b", "c"]) assert.equal(bench.take({ k }).dropped, true, k);
  assert.equal(bench.take({ k: "d", cost: "2" }).dropped, false, "its token came back");
});

test("a full table: tokens come back to a bucket that it forgot meanwhile", () => {
  const rule = rateRule({ limitByLabelKey: "k", tokensLabelKey: "cost" });
  const bench = new Bench(rule, rate(4, 0), testContext(3));
  const forgotten = bench.take({ k: "forgotten", cost: "2" });
  for (const k of ["a", "b", "c"]) bench.take({ k, cost: "3" });
  assert.deepEqual(bench.context.anomalies, ["keys_overflow"]);
  bench.undo(forgotten);
  assert.equal(bench.take({ k: "forgotten", cost: "4" }).dropped, false);
  for (const k of ["a", "b", "c"]) assert.equal(bench.take({ k, cost: "2" }).dropped, true, k);
});

test("a full table: full buckets are dropped first, empty ones stay", () => {
  const rule = rateRule({ limitByLabelKey: "k", tokensLabelKey: "cost" });
  const bench = new Bench(rule, rate(10, 1), testContext(20));
  for (let key = 0; key < 10; key++) bench.take({ k: `debt-${key}`, cost: "10" });
  for (let key = 0; key < 10; key++) bench.take({ k: `light-${key}`, cost: "1" });
  bench.context.clock.advance(1_000);
  for (let key = 0; key < 10; key++) assert.equal(bench.take({ k: `new-${key}` }).remaining, 9);
  assert.deepEqual(bench.context.anomalies, []);
  bench.take({ k: "one-more" });
  assert.deepEqual(bench.context.anomalies, ["keys_overflow"]);
  for (let key = 0; key < 10; key++) {
    assert.equal(bench.take({ k: `debt-${key}`, cost: "2" }).dropped, true);
  }
});

test("tokens of a forgotten key are not given to another one", () => {
  const bench = new Bench(rateRule({ limitByLabelKey: "k" }), rate(2, 2), testContext(1));
  const a = bench.take({ k: "a" });
  bench.context.clock.advance(1_000);
  bench.take({ k: "b" });
  bench.undo(a);
  assert.equal(bench.peek({ k: "b" }).remaining, 0);
  assert.equal(bench.take({ k: "c" }).remaining, 1);
  bench.limiter.undo({ policyName: "", componentId: "", key: "other:a", id: "", amount: 1 });
  assert.equal(bench.peek({ k: "b" }).remaining, 0);
});

test("tokens given back to a full bucket are lost, even when the bucket grows later", () => {
  for (const rule of [rateRule(), rateRule({ limitByLabelKey: "k" })]) {
    const bench = new Bench(rule, rate(2, 2));
    const taken = bench.take({ k: "a" });
    bench.take({ k: "a" });
    bench.context.clock.advance(rule.intervalMs);
    assert.equal(bench.peek({ k: "a" }).remaining, 1, "full, so that one would be left");
    bench.undo(taken);
    bench.limiter.decide(rate(9, 2));
    assert.deepEqual(counts(bench.take({ k: "a" })), [false, 1, 8, 1, 0]);
  }
});
