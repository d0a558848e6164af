// Quantiles of histograms, worked out by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { QueryCompiler } from "#promql/evaluate.ts";
import { SampleStore } from "#promql/samples.ts";

function quantile(part: number, buckets: Readonly<Record<string, number>>): number {
  const store = new SampleStore();
  store.setQueries(["b"]);
  store.addScrape(
    1000,
    Object.entries(buckets).map(([le, value]) => ({ labels: { __name__: "b", le }, value })),
  );
  const result = new QueryCompiler().compile(`scalar(histogram_quantile(${part}, b))`)(1000, store);
  assert.ok(result.kind === "scalar");
  return result.value;
}

for (const [what, part, buckets, wanted] of [
  ["evenly spread in a bucket", 0.5, { "1": 2, "2": 6, "+Inf": 8 }, 1.5],
  ["the lowest bucket begins at 0", 0.125, { "1": 2, "2": 6, "+Inf": 8 }, 0.5],
  ["above all bounds: the highest", 0.9, { "1": 2, "2": 6, "+Inf": 8 }, 2],
  [
    "a bucket that fell counts what the one below does",
    0.5,
    { "1": 4, "2": 3, "4": 8, "+Inf": 8 },
    1,
  ],
  ["and the one above begins there", 0.75, { "1": 4, "2": 3, "4": 8, "+Inf": 8 }, 3],
  [
    "more by noise is no value",
    0.5,
    { "1": 3, "2": 3 + 2 ** -40, "4": 6, "+Inf": 6 + 2 ** -39 },
    1,
  ],
  ["more than noise is one", 0.5, { "1": 3, "2": 3 + 2 ** -33, "4": 6, "+Inf": 6 + 2 ** -32 }, 2],
  ["a bound spelt twice", 0.5, { "1": 2, "1.0": 2, "+Inf": 8 }, 1],
  ["no bucket for the rest", 0.5, { "1": 2, "2": 6 }, Number.NaN],
  ["nothing counted", 0.5, { "1": 0, "+Inf": 0 }, Number.NaN],
  ["a bound that is no number", 0.5, { "1": 4, x: 6, "+Inf": 8 }, 1],
  ["bounds below 0", 0.1, { "-2": 4, "+Inf": 8 }, -2],
  ["below", -0.1, { "1": 4, "+Inf": 8 }, Number.NEGATIVE_INFINITY],
  ["above", 1.1, { "1": 4, "+Inf": 8 }, Number.POSITIVE_INFINITY],
] as const) {
  test(what, () => assert.equal(quantile(part, buckets), wanted));
}
