// Texts that are decimal numbers, and those that JavaScript would read as numbers although they are none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decimalOf } from "#base/text/decimal.ts";

test("reads decimals with a sign, a fraction and an exponent", () => {
  const numbers = {
    "0": 0,
    "12": 12,
    "+1.5": 1.5,
    "-.5": -0.5,
    "5.": 5,
    "1e3": 1_000,
    "2E-1": 0.2,
  };
  for (const [text, wanted] of Object.entries(numbers)) assert.equal(decimalOf(text), wanted, text);
});

test("reads nothing else", () => {
  for (const text of ["", " ", " 1", "1 ", "0x10", "1_000", ".", "e3", "1e", "NaN", "Infinity"]) {
    assert.equal(decimalOf(text), undefined, text);
  }
  assert.equal(decimalOf("1e999"), undefined, "not finite");
  assert.equal(decimalOf("1".repeat(64)), Number("1".repeat(64)));
  assert.equal(decimalOf("1".repeat(65)), undefined);
});
