// Results become numbers for circuits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { numberOf, numbersBy, type Sample } from "#promql/result.ts";

const sample = (value: number, labels: Sample["labels"]): Sample => ({ labels, value });

test("numbers by a label: finite ones, of samples that have it", () => {
  const samples = [
    sample(1, { w: "a" }),
    sample(Number.POSITIVE_INFINITY, { w: "b" }),
    sample(Number.NEGATIVE_INFINITY, { w: "c" }),
    sample(Number.NaN, { w: "d" }),
    sample(2, { other: "e" }),
    sample(0, { w: "f" }),
  ];
  const found = numbersBy("w", { kind: "vector", samples });
  assert.deepEqual(
    found,
    new Map([
      ["a", 1],
      ["f", 0],
    ]),
  );
  assert.deepEqual(numbersBy("w", { kind: "scalar", value: 1 }), {
    why: "wanted a vector, got a scalar",
  });
});

test("one number is the only one, NaN and infinities too", () => {
  for (const value of [1, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal(numberOf({ kind: "vector", samples: [sample(value, {})] }), value);
  }
  const two = { kind: "vector", samples: [sample(1, {}), sample(2, {})] } as const;
  assert.deepEqual(numberOf(two), { why: "wanted one number, got a vector of 2" });
});
