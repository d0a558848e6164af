// The rates that a limiter had, as far as a bucket that was not used since needs them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RateHistory } from "#counters/redis/rate-history.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";

const perSecond = (amount: number) => ({ ...TEN_PER_SECOND, amount, intervalMs: 1_000 });

/** Changes to these tokens per second, one every ms. */
function changed(...amounts: readonly number[]) {
  const history = new RateHistory();
  for (const [at, amount] of amounts.entries()) history.change(at, perSecond(amount));
  return history;
}

test("each change says how long ago it was and what counted before it, the latest first", () => {
  const history = changed(10, 20, 20, 40);
  assert.deepEqual(history.pairs(5, perSecond(40)), ["2", "20", "4", "10"]);
  history.forget(2);
  assert.deepEqual(history.pairs(5, perSecond(40)), ["2", "20"]);
});

test("before the last eight changes the smallest of all older rates counts", () => {
  const older = [100, 1, 50];
  const latest = [60, 70, 80, 90, 100, 110, 120, 130];
  const pairs = changed(...older, ...latest).pairs(20, perSecond(130));
  const rates = pairs.filter((_, at) => at % 2 === 1).map(Number);
  assert.deepEqual(rates, [120, 110, 100, 90, 80, 70, 60, 1]);
  assert.equal(pairs.at(-2), "17", "since the oldest of the eight");
});
