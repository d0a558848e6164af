// Components without state.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { INVALID, one } from "./one.ts";

const { POSITIVE_INFINITY: inf, MAX_VALUE: max } = Number;
const real = fc.double({ noNaN: true, min: -1e9, max: 1e9 });
const reading = fc.oneof(real, fc.constantFrom(0, -0, 1, inf, -inf, INVALID));

function folded(kind: "max" | "min" | "and" | "or" | "first_valid", inputs: readonly number[]) {
  return one(kind, {}, { inputs: inputs.length }).tick({ inputs }) + 0;
}

test("max and min: one invalid input is enough", () => {
  fc.assert(
    fc.property(fc.array(real, { minLength: 1 }), fc.nat(20), (inputs, at) => {
      assert.equal(folded("max", inputs), Math.max(...inputs) + 0);
      assert.equal(folded("min", inputs), Math.min(...inputs) + 0);
      const gap = inputs.toSpliced(at, 0, INVALID);
      assert.equal(folded("max", gap), INVALID);
      assert.equal(folded("min", gap), INVALID);
    }),
  );
  assert.equal(folded("max", []), INVALID);
  assert.equal(folded("min", []), INVALID);
  assert.equal(folded("max", [-inf]), -max);
  assert.equal(folded("min", [inf]), max);
});

test("and, or: three values, de Morgan holds", () => {
  const not = (input: number) => one("inverter", {}).tick({ input });
  fc.assert(
    fc.property(fc.array(reading), (inputs) => {
      const and = folded("and", inputs);
      const unknown = inputs.some(Number.isNaN);
      if (inputs.includes(0) || inputs.some((each) => Object.is(each, -0))) assert.equal(and, 0);
      else assert.equal(and, unknown ? INVALID : 1);
      assert.equal(folded("or", inputs.map(not)), not(and));
    }),
  );
  assert.equal(folded("and", []), 1);
  assert.equal(folded("or", []), 0);
  assert.equal(folded("or", [INVALID, 2]), 1);
  assert.equal(folded("or", [INVALID, 0]), INVALID);
  assert.equal(folded("and", [INVALID, -0]), 0);
});

test("inverter", () => {
  const inverter = one("inverter", {});
  assert.deepEqual(inverter.column([INVALID, 0, 1, 2, -1, -0, inf]), [INVALID, 1, 0, 0, 0, 1, 0]);
});

test("first_valid goes by the order of its list", () => {
  fc.assert(
    fc.property(fc.array(reading), (inputs) => {
      const wanted = inputs.find((each) => !Number.isNaN(each)) ?? INVALID;
      assert.equal(folded("first_valid", inputs), wanted + 0);
    }),
  );
});

test("switcher: an invalid switch is off", () => {
  const switcher = one("switcher", {});
  for (const [at, wanted] of [
    [1, 7],
    [-3, 7],
    [inf, 7],
    [0, 8],
    [-0, 8],
    [INVALID, 8],
  ] as const) {
    assert.equal(switcher.tick({ switch: at, on_signal: 7, off_signal: 8 }), wanted);
  }
  assert.equal(switcher.tick({ switch: 1, off_signal: 8 }), INVALID);
});

function calculated(operator: string, lhs: number, rhs: number): number {
  return one("arithmetic_combinator", { operator }).tick({ lhs, rhs }) + 0;
}

test("arithmetic: exact on valid operands, invalid on others and on a division by 0", () => {
  fc.assert(
    fc.property(real, real, (lhs, rhs) => {
      assert.equal(calculated("add", lhs, rhs), lhs + rhs + 0);
      assert.equal(calculated("sub", lhs, rhs), lhs - rhs + 0);
      assert.equal(calculated("mul", lhs, rhs), lhs * rhs + 0);
      assert.equal(calculated("div", lhs, rhs), rhs === 0 ? INVALID : lhs / rhs + 0);
    }),
  );
  for (const operator of ["add", "sub", "mul", "div", "xor", "lshift", "rshift"]) {
    assert.equal(calculated(operator, INVALID, 1), INVALID);
    assert.equal(calculated(operator, 1, INVALID), INVALID);
  }
  assert.equal(calculated("div", 1, -0), INVALID);
  assert.throws(() => calculated("ADD", 1, 1), /unknown arithmetic operator/);
});

test("xor and shifts work on 64-bit integers", () => {
  const integer = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  fc.assert(
    fc.property(integer, integer, fc.nat(31), (lhs, rhs, by) => {
      assert.equal(calculated("xor", lhs + 0.5 * Math.sign(lhs), rhs), lhs ^ rhs);
      assert.equal(calculated("lshift", lhs, by), lhs * 2 ** by);
      assert.equal(calculated("rshift", lhs, by), lhs >> by);
    }),
  );
  assert.equal(calculated("lshift", 1, 63), -(2 ** 63));
  assert.equal(calculated("lshift", 1, 64), 0);
  assert.equal(calculated("rshift", -5, 200), -1);
  assert.equal(calculated("rshift", 5, -0.5), 5);
});

test("xor and shifts are invalid outside of 64-bit integers, and for negative shifts", () => {
  for (const lhs of [inf, -inf, 2 ** 63, -(2 ** 64)]) {
    for (const operator of ["xor", "lshift", "rshift"]) {
      assert.equal(calculated(operator, lhs, 1), INVALID);
    }
  }
  assert.equal(calculated("xor", -(2 ** 63), 0), -(2 ** 63));
  assert.equal(calculated("lshift", 1, -1), INVALID);
  assert.equal(calculated("rshift", 1, -7.5), INVALID);
});

test("ingress and egress copy their signal", () => {
  for (const kind of ["nested_signal_ingress", "nested_signal_egress"] as const) {
    const component = one(kind, { port_name: "p" });
    for (const each of [1, -inf, INVALID])
      assert.equal(component.tick({ signal: each }, "signal"), each);
  }
});

test("variable: a constant unless the dynamic configuration overrides it", () => {
  const variable = one("variable", { constant_output: { value: 4 }, config_key: "a.b" });
  assert.equal(variable.tick(), 4);
  variable.configure({ a: { b: { value: 9 } } });
  assert.equal(variable.tick(), 9);
  variable.configure({ a: { b: { special_value: "NaN" } } });
  assert.equal(variable.tick(), INVALID);
  for (const bad of [{ b: 7 }, { b: { value: "7" } }, { b: null }, {}]) {
    variable.configure({ a: bad });
    assert.equal(variable.tick(), 4);
  }
  variable.configure({ "a.b": { value: 1 }, a: { b: { value: 2 } } });
  assert.equal(variable.tick(), 1);
  variable.configure(undefined);
  assert.equal(variable.tick(), 4);
});

test("constants: special values take precedence, an empty constant is 0", () => {
  const outputs = [{}, { special_value: "+Inf", value: 3 }, { special_value: "NaN" }].map(
    (constant_output) => one("variable", { constant_output, config_key: "" }).tick(),
  );
  assert.deepEqual(outputs, [0, inf, INVALID]);
});

test("bool_variable", () => {
  const variable = one("bool_variable", { constant_output: true, config_key: "on" });
  assert.equal(variable.tick(), 1);
  for (const [given, wanted] of [
    [false, 0],
    [0, 0],
    ["F", 0],
    ["false", 0],
    [2, 1],
    ["true", 1],
    ["yes", 1],
    [null, 1],
    [[], 1],
  ] as const) {
    variable.configure({ on: given });
    assert.equal(variable.tick(), wanted, String(given));
  }
  variable.configure({ on: false });
  variable.configure(undefined);
  assert.equal(variable.tick(), 1);
});
