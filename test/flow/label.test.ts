import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  EMPTY_SCHEMA,
  type LabelSource,
  Labels,
  labelNumber,
  MAX_LABEL_NUMBER,
} from "#flow/label.ts";

describe("a number in a label", () => {
  it("is a decimal from 0 to 1e12", () => {
    const numbers: readonly (readonly [string, number])[] = [
      ["0", 0],
      ["7", 7],
      ["+7", 7],
      ["007", 7],
      ["2.5", 2.5],
      ["2.", 2],
      [".5", 0.5],
      ["1e3", 1_000],
      ["1E+3", 1_000],
      ["25e-1", 2.5],
      ["1e-400", 0],
      ["1000000000000", 1e12],
      ["1e12", MAX_LABEL_NUMBER],
      ["0e999", 0],
    ];
    for (const [text, value] of numbers) assert.equal(labelNumber(text), value, text);
  });

  it("is ignored when it is larger", () => {
    for (const text of ["1000000000001", "1000000000000.1", "1e13", "1e308", "1e400", "9e999"]) {
      assert.equal(labelNumber(text), undefined, text);
    }
  });

  it("is ignored when it is longer than forty characters", () => {
    assert.equal(labelNumber("1".padStart(40, "0")), 1);
    assert.equal(labelNumber("1".padStart(41, "0")), undefined);
    assert.equal(labelNumber(`1.${"0".repeat(38)}`), 1);
    assert.equal(labelNumber(`1.${"0".repeat(39)}`), undefined);
    assert.equal(labelNumber("1".repeat(100_000)), undefined);
  });

  it("is ignored in other notations that JavaScript reads as numbers", () => {
    const others = [
      "",
      " ",
      " 1",
      "1 ",
      "-1",
      "-0",
      "--1",
      "++1",
      "1,5",
      "1.2.3",
      ".",
      "+",
      "e3",
      "1e",
      "1e+",
      "1e1000",
      "0x10",
      "0b1",
      "0o7",
      "1_000",
      "1n",
      "NaN",
      "Infinity",
      "+Infinity",
      "١",
    ];
    for (const text of others) assert.equal(labelNumber(text), undefined, JSON.stringify(text));
  });

  it("is finite and within bounds, or undefined, for any text", () => {
    const text = fc.oneof(
      fc.string(),
      fc.double().map(String),
      fc.stringMatching(/^\+?\d{1,14}(\.\d{0,5})?(e[+-]?\d{1,3})?$/),
    );
    fc.assert(
      fc.property(text, (given) => {
        const value = labelNumber(given);
        if (value === undefined) return;
        assert.equal(value, Number(given));
        assert.ok(value >= 0 && value <= 1e12, given);
      }),
    );
  });
});

describe("the labels of a flow that no classifier has labelled", () => {
  it("are those of its source", () => {
    const given: readonly (readonly [string, string])[] = [
      ["a", "1"],
      ["b", "2"],
    ];
    const source: LabelSource = {
      get: () => undefined,
      origin: () => undefined,
      each(visit) {
        for (const [name, value] of given) visit(name, value, true, "claim");
      },
    };
    const labels = new Labels(EMPTY_SCHEMA, source);
    const seen: (readonly [string, string])[] = [];
    labels.each((name, value) => void seen.push([name, value]));
    assert.deepEqual(seen, given);
    assert.equal(labels.classifierLabelCount, 0);
    assert.deepEqual([...labels.classifierLabels()], []);
  });
});
