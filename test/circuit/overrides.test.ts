// The values of the dynamic configuration that are valid in each form, and those that are ignored.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Overrides } from "#circuit/component.ts";
import { type DynamicConfig, overridesOf } from "#circuit/overrides.ts";

function read(form: keyof Overrides, config: DynamicConfig | undefined, key = "k") {
  const aside: string[] = [];
  const value = overridesOf(config, (name, wanted) => aside.push(`${name}: ${wanted}`))[form](key);
  return { value, aside };
}

const CONSTANT = "k: {value: number} or {special_value: NaN, +Inf or -Inf}";

test("constants", () => {
  const good: readonly (readonly [unknown, number])[] = [
    [{ value: 5 }, 5],
    [{ value: -0.5 }, -0.5],
    [{}, 0],
    [{ special_value: "NaN" }, Number.NaN],
    [{ special_value: "+Inf" }, Number.POSITIVE_INFINITY],
    [{ special_value: "-Inf" }, Number.NEGATIVE_INFINITY],
  ];
  for (const [given, wanted] of good) {
    assert.deepEqual(read("number", { k: given }), { value: wanted, aside: [] });
  }
});

test("constants of the wrong form are ignored, also numbers that are not finite", () => {
  const bad = [
    5,
    "5",
    [],
    { value: "5" },
    { value: null },
    { value: JSON.parse("1e999") },
    { value: JSON.parse("-1e999") },
    { value: Number.NaN },
    { special_value: "Inf" },
    { special_value: "toString" },
    { special_value: 1 },
    { value: 1, special_value: "NaN" },
    { value: 1, other: 1 },
  ];
  for (const given of bad) {
    const got = read("number", { k: given });
    assert.deepEqual(got, { value: undefined, aside: [CONSTANT] }, JSON.stringify(given));
  }
});

test("words and numbers as booleans", () => {
  for (const given of [true, 1, -2, "1", "t", "T", "true", "TRUE", "True"]) {
    assert.deepEqual(read("boolean", { k: given }), { value: true, aside: [] }, String(given));
  }
  for (const given of [false, 0, "0", "f", "F", "false", "FALSE", "False"]) {
    assert.deepEqual(read("boolean", { k: given }), { value: false, aside: [] }, String(given));
  }
  for (const given of ["yes", "", "tRUE", {}, []]) {
    const got = read("boolean", { k: given });
    assert.deepEqual(got, { value: undefined, aside: ["k: true or false"] }, String(given));
  }
});

test("lists of texts", () => {
  assert.deepEqual(read("texts", { k: ["a", ""] }), { value: ["a", ""], aside: [] });
  assert.deepEqual(read("texts", { k: [] }), { value: [], aside: [] });
  for (const given of ["a", ["a", 1], {}]) {
    const got = read("texts", { k: given });
    assert.deepEqual(got, { value: undefined, aside: ["k: a list of texts"] });
  }
});

test("a whole key takes precedence over its parts; absent and null values are no overrides", () => {
  const nested = { a: { b: true } };
  assert.equal(read("boolean", nested, "a.b").value, true);
  assert.equal(read("boolean", { ...nested, "a.b": false }, "a.b").value, false);
  for (const config of [undefined, {}, { k: null }, { a: { b: null } }, { a: ["b"] }]) {
    for (const key of ["k", "a.b", "", "toString", "a.b.c"]) {
      assert.deepEqual(read("boolean", config, key), { value: undefined, aside: [] });
    }
  }
});
