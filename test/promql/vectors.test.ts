// The samples and labels of results, and their order: worked out by hand where a server's order is any.

import assert from "node:assert/strict";
import { test } from "node:test";
import { QueryCompiler } from "#promql/evaluate.ts";
import type { Labels } from "#promql/result.ts";
import { SampleStore } from "#promql/samples.ts";

type Given = readonly (readonly [number, Labels])[];

function run(query: string, samples: Given): readonly (readonly [number, string])[] {
  const store = new SampleStore();
  store.setQueries(["x"]);
  store.addScrape(
    1000,
    samples.map(([value, labels]) => ({ labels: { __name__: "x", ...labels }, value })),
  );
  const result = new QueryCompiler().compile(query)(1000, store);
  assert.ok(result.kind === "vector");
  return result.samples.map(({ labels, value }) => [value, JSON.stringify(labels)]);
}

function values(query: string, given: readonly number[]): readonly number[] {
  const samples = given.map((value, at) => [value, { at: `${at}` }] as const);
  return run(query, samples).map(([value]) => value);
}

test("NaN is neither the top nor the bottom, but better than nothing", () => {
  const given = [Number.NaN, 2, Number.NaN, 3, 1];
  assert.deepEqual(values("topk(2, x)", given), [3, 2]);
  assert.deepEqual(values("bottomk(2, x)", given), [1, 2]);
  assert.deepEqual(values("topk(4, x)", given), [3, 2, 1, Number.NaN]);
  assert.deepEqual(values("bottomk(4, x)", given), [1, 2, 3, Number.NaN]);
  assert.deepEqual(values("sort(x)", given), [1, 2, 3, Number.NaN, Number.NaN]);
  assert.deepEqual(values("sort_desc(x)", given), [3, 2, 1, Number.NaN, Number.NaN]);
});

for (const [query, ...wanted] of [
  ['count_values("a", x)', [2, '{"a":"5"}'], [1, '{"a":"7"}']],
  ['count_values without (b) ("a", x)', [2, '{"a":"5"}'], [1, '{"a":"7"}']],
  ['count_values without (a, b) ("a", x)', [3, "{}"]],
  [
    'count_values by (a) ("v", x)',
    [1, '{"a":"1","v":"5"}'],
    [1, '{"a":"2","v":"5"}'],
    [1, '{"a":"1","v":"7"}'],
  ],
  [
    'count_values without (a, b) ("__proto__", x)',
    [2, '{"__proto__":"5"}'],
    [1, '{"__proto__":"7"}'],
  ],
] as const) {
  test(query, () => {
    const given: Given = [
      [5, { a: "1", b: "1" }],
      [5, { a: "2", b: "2" }],
      [7, { a: "1", b: "3" }],
    ];
    assert.deepEqual(run(query, given), wanted);
  });
}

for (const [query, labels] of [
  ['absent(x{job="b"})', '{"job":"b"}'],
  ['absent(x{job!="a",job="b"})', '{"job":"b"}'],
  ['absent(x{job="b",job!="a"})', "{}"],
  ['absent(x{job="b",job="c"})', "{}"],
  ['absent(x{job="b",other=~"c"})', '{"job":"b"}'],
  ['absent_over_time({__name__="x",job="b"}[5m])', '{"job":"b"}'],
] as const) {
  test(query, () => assert.deepEqual(run(query, []), [[1, labels]]));
}
