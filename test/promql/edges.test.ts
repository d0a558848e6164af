// For queries that servers of versions 2 and 3 answer differently, results are those of version 3; the differential
// test avoids these cases.

import assert from "node:assert/strict";
import { test } from "node:test";
import { QueryCompiler } from "#promql/evaluate.ts";
import { SampleStore } from "#promql/samples.ts";

const S = 1000;

function scalarOf(
  query: string,
  points: readonly (readonly [number, number])[],
  at: number,
): number {
  const store = new SampleStore();
  store.setQueries([query]);
  for (const [second, value] of points) {
    store.addScrape(second * S, [{ labels: { __name__: "a" }, value }]);
  }
  const result = new QueryCompiler().compile(`scalar(${query})`)(at * S, store);
  assert.ok(result.kind === "scalar");
  return result.value;
}

const every10 = Array.from({ length: 7 }, (_, at) => [at * 10, at * 100] as const);

test("a range excludes its left edge: 30 s of a scrape every 10 s are three samples", () => {
  assert.equal(scalarOf("count_over_time(a[30s])", every10, 60), 3);
  assert.equal(scalarOf("count_over_time(a[30s] offset 10s)", every10, 60), 3);
  assert.equal(scalarOf("min_over_time(a[30s])", every10, 60), 400);
});

test("and is extrapolated to its edge", () => {
  assert.equal(scalarOf("increase(a[30s])", every10, 60), 300);
  assert.equal(scalarOf("rate(a[30s])", every10, 60), 10);
  assert.equal(scalarOf("delta(a[30s])", every10, 60), 300);
});

test("a series that begins within the range continues by half a step, but not below zero", () => {
  const begins = [
    [70, 8],
    [80, 28],
    [90, 48],
    [100, 68],
  ] as const;
  // Covered 30 s with 60; half a step is 5 s, zero was 4 s before.
  assert.equal(scalarOf("increase(a[1m40s])", begins, 100), (60 * 34) / 30);
  assert.equal(scalarOf("delta(a[1m40s])", begins, 100), (60 * 35) / 30);
});

test("a counter that is reset keeps its earlier count", () => {
  const resets = [
    [10, 1000],
    [20, 1010],
    [30, 5],
    [40, 15],
  ] as const;
  // Covered 30 s with 10 + 5 + 10, and one step to the left.
  assert.equal(scalarOf("increase(a[40s])", resets, 40), 25 * (40 / 30));
  assert.equal(scalarOf("resets(a[40s])", resets, 40), 1);
  assert.equal(scalarOf("irate(a[10s])", resets, 30), Number.NaN);
  assert.equal(scalarOf("irate(a[11s])", resets, 30), 0.5);
});
