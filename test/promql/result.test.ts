// Results become numbers for circuits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { numericResult, type Sample } from "#promql/result.ts";

const sample = (value: number, labels: Sample["labels"]): Sample => ({ labels, value });

test("numbers by label: finite values of samples with that label", () => {
  const samples = [
    sample(1, { w: "a" }),
    sample(Number.POSITIVE_INFINITY, { w: "b" }),
    sample(Number.NEGATIVE_INFINITY, { w: "c" }),
    sample(Number.NaN, { w: "d" }),
    sample(2, { other: "e" }),
    sample(0, { w: "f" }),
  ];
  const found = numericResult({ kind: "vector", samples }, "w");
  const values = new Map([
    ["a", 1],
    ["f", 0],
  ]);
  assert.deepEqual(found, { kind: "by_label", values });
  assert.deepEqual(numericResult({ kind: "scalar", value: 1 }, "w"), {
    kind: "failed",
    why: "wanted a vector, got a scalar",
  });
});

test("a single number, also NaN and infinities", () => {
  for (const value of [1, Number.NaN, Number.POSITIVE_INFINITY]) {
    const result = { kind: "vector", samples: [sample(value, {})] } as const;
    assert.deepEqual(numericResult(result, undefined), { kind: "value", value });
  }
  const two = { kind: "vector", samples: [sample(1, {}), sample(2, {})] } as const;
  assert.deepEqual(numericResult(two, undefined), {
    kind: "failed",
    why: "wanted one number, got a vector of 2",
  });
  const none = { kind: "vector", samples: [] } as const;
  assert.deepEqual(numericResult(none, undefined), {
    kind: "failed",
    why: "wanted one number, got a vector of 0",
    empty: true,
  });
});
