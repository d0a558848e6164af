// Positions of keys must depend on the agent's seed, or an attacker could construct keys that collide.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Bench, concurrency, concurrencyRule, rate, rateRule, testContext } from "./setup.ts";

const KEYS = 200;
const NEW = 100;

/** For each of many new keys of a full table: whether an evictable key was among those examined. */
function places(bench: Bench): string {
  const { anomalies } = bench.context;
  let found = "";
  for (let key = 0; key < NEW; key++) {
    const before = anomalies.length;
    bench.take({ k: `new-${key}` });
    found += anomalies.length === before ? "y" : "n";
  }
  assert.match(found, /y.*n|n.*y/, "both happen, or nothing is shown");
  return found;
}

/** One key in ten is full again, and may be evicted. */
function buckets(seed: number): string {
  const bench = new Bench(rateRule({ limitByLabelKey: "k" }), rate(5, 0), testContext(KEYS, seed));
  const taken = Array.from({ length: KEYS }, (_, key) => bench.take({ k: `key-${key}` }));
  for (let key = 0; key < KEYS; key += 10) {
    const decision = taken[key];
    if (decision !== undefined) bench.undo(decision);
  }
  return places(bench);
}

/** One key in ten holds an expired slot, and may be evicted. */
function slots(seed: number): string {
  const rule = concurrencyRule({ limitByLabelKey: "k", maxInflightMs: 1_000 });
  const bench = new Bench(rule, concurrency(5), testContext(KEYS, seed));
  for (let key = 0; key < KEYS; key += 10) bench.take({ k: `key-${key}` });
  bench.context.clock.advance(500);
  for (let key = 0; key < KEYS; key++) if (key % 10 !== 0) bench.take({ k: `key-${key}` });
  bench.context.clock.advance(500);
  return places(bench);
}

for (const [name, run] of Object.entries({ buckets, slots })) {
  test(`${name}: positions of keys depend on the seed and on nothing else`, () => {
    const seen = [1, 2, 3, 4, 5].map((seed) => run(seed));
    assert.equal(new Set(seen).size, seen.length);
    assert.deepEqual(
      [1, 2, 3, 4, 5].map((seed) => run(seed)),
      seen,
    );
  });
}
