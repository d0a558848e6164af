import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { roundAway, roundToEven } from "#circuit/functions/round.ts";
import { one } from "./one.ts";

// Computed with 60 digits by an arbitrary-precision library.
const VECTORS = JSON.parse(
  readFileSync(join(import.meta.dirname, "functions.vectors.json"), "utf8"),
) as Readonly<Record<string, readonly (readonly [number, number])[]>>;

function value(operator: string, x: number): number {
  return one("unary_operator", { operator }).tick({ input: x });
}

for (const [operator, rows] of Object.entries(VECTORS)) {
  test(`${operator} has twelve digits or more`, () => {
    for (const [x, wanted] of rows) {
      const got = value(operator, x);
      const error = Math.abs(got - wanted) / Math.abs(wanted);
      assert.ok(error < 1e-12, `${operator}(${x}): wanted ${wanted}, got ${got}`);
    }
  });
}

const { NaN: none, POSITIVE_INFINITY: inf } = Number;

for (const [operator, x, wanted] of [
  ["erf", inf, 1],
  ["erf", -inf, -1],
  ["erf", 0, 0],
  ["erfc", inf, 0],
  ["erfc", -inf, 2],
  ["erfinv", 1, inf],
  ["erfinv", -1, -inf],
  ["erfinv", 1.0001, none],
  ["erfcinv", 0, inf],
  ["erfcinv", 2, -inf],
  ["erfcinv", -0.1, none],
  ["erfcinv", 1, 0],
  ["gamma", 0, inf],
  ["gamma", -3, none],
  ["gamma", 22, 51090942171709440000],
  ["gamma", 171.7, inf],
  ["gamma", 172, inf],
  ["gamma", inf, inf],
  ["gamma", -inf, none],
  ["lgamma", 1, 0],
  ["lgamma", 2, 0],
  ["lgamma", 0, inf],
  ["lgamma", -4, inf],
  ["j0", 0, 1],
  ["j1", 0, 0],
  ["j0", inf, 0],
  ["y0", 0, -inf],
  ["y1", 0, -inf],
  ["y0", -1, none],
  ["y1", inf, 0],
  ["round", 0.49999999999999994, 0],
  ["round", 0.5, 1],
  ["round", -0.5, -1],
  ["round", -2.5, -3],
  ["round", 2251799813685247.5, 2251799813685248],
  ["round", inf, inf],
  ["roundtoeven", 0.5, 0],
  ["roundtoeven", 1.5, 2],
  ["roundtoeven", -2.5, -2],
  ["sqrt", -1, none],
  ["log", 0, -inf],
  ["log", -1, none],
  ["acosh", 0.5, none],
  ["abs", none, none],
] as const) {
  test(`${operator}(${x}) is ${wanted}`, () => {
    const got = value(operator, x) + 0;
    assert.ok(Object.is(got, wanted), `got ${got}`);
  });
}

test("an unknown function is refused when the component is made", () => {
  assert.throws(() => one("unary_operator", { operator: "sin " }), /unknown unary operator/);
});

const real = fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 });

test("rounding goes to a whole number that is at most a half away", () => {
  fc.assert(
    fc.property(real, (x) => {
      for (const round of [roundAway, roundToEven]) {
        const whole = round(x);
        assert.ok(Number.isInteger(whole) && Math.abs(whole - x) <= 0.5);
        assert.equal(round(-x) + 0, -whole + 0);
      }
    }),
  );
});

test("functions defined for every number always give one", () => {
  const total = "abs asinh atan cbrt ceil cos erf erfc exp exp2 expm1 floor j0 j1 lgamma round";
  const moderate = fc.double({ noNaN: true, min: -700, max: 700 });
  for (const operator of `${total} roundtoeven sin sinh cosh tan tanh trunc`.split(" ")) {
    const component = one("unary_operator", { operator });
    fc.assert(
      fc.property(moderate, (x) => !Number.isNaN(component.tick({ input: x }))),
      { numRuns: 50 },
    );
  }
});

test("inverses of the error function are inverse", () => {
  const open = fc.double({ noNaN: true, min: -0.9999, max: 0.9999 });
  fc.assert(fc.property(open, (y) => Math.abs(value("erf", value("erfinv", y)) - y) <= 1e-14));
  const tail = fc.double({ noNaN: true, min: 1e-290, max: 1.99 });
  fc.assert(
    fc.property(tail, (y) => Math.abs(value("erfc", value("erfcinv", y)) / y - 1) <= 1e-12),
  );
});

test("gamma grows by its argument", () => {
  const between = fc.double({ noNaN: true, min: -100, max: 150 });
  fc.assert(
    fc.property(between, (x) => {
      fc.pre(Math.abs(x - Math.round(x)) > 1e-3);
      const ratio = value("gamma", x + 1) / value("gamma", x);
      assert.ok(Math.abs(ratio / x - 1) < 1e-9, `${ratio}`);
    }),
  );
});

test("Bessel functions of both kinds belong together", () => {
  const positive = fc.double({ noNaN: true, min: 1e-3, max: 500 });
  fc.assert(
    fc.property(positive, (x) => {
      const [j0, j1, y0, y1] = ["j0", "j1", "y0", "y1"].map((name) => value(name, x));
      const wronskian = (j1 ?? 0) * (y0 ?? 0) - (j0 ?? 0) * (y1 ?? 0);
      assert.ok(Math.abs((wronskian * Math.PI * x) / 2 - 1) < 1e-11, `${wronskian}`);
    }),
  );
});
