import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatDuration, parseDuration } from "#base/duration.ts";
import { distance, nearest } from "#base/text/spelling.ts";
import * as formats from "#config/table/format.ts";
import { bool, duration, headers, string } from "#config/table/row.ts";
import { gotOf, LONGEST_MS, validateText, validateValue } from "#config/table/value.ts";
import { samplesOf } from "../kit/sluice/config-samples.ts";

for (const [name, format] of Object.entries(formats)) {
  test(`format ${name}`, () => {
    const { good, bad } = samplesOf(format);
    assert.notEqual(good.length * bad.length, 0);
    assert.ok(format.example !== "" && format.accepts(format.example));
    for (const text of good) assert.ok(format.accepts(text), `${text} is good`);
    for (const text of bad) assert.ok(!format.accepts(text), `${text} is bad`);
  });
}

test("durations: the full form, and no number without a unit except 0", () => {
  const row = duration("1s", "", { least: "any" });
  const read = (text: unknown) => {
    const judged = validateValue(row, text);
    return "value" in judged ? judged.value : undefined;
  };
  assert.equal(read("1m30s"), 90_000);
  assert.equal(read("100ms"), 100);
  assert.equal(read("0.25s"), 250);
  assert.equal(read("1h"), 3_600_000);
  assert.equal(read("-1s"), -1_000);
  assert.ok(Object.is(read("-0s"), 0));
  assert.equal(read("0"), 0);
  assert.equal(read(0), 0);
  for (const bad of [
    "10",
    10,
    "",
    "s",
    "1s 2s",
    "1d",
    "1s,",
    null,
    true,
    `${LONGEST_MS + 1}ms`,
    "999999999h",
  ]) {
    assert.equal(read(bad), undefined, String(bad));
  }
});

test("durations print as text that parses to the same value", () => {
  fc.assert(
    fc.property(fc.integer({ min: -LONGEST_MS, max: LONGEST_MS }), fc.nat(999_999), (ms, nanos) => {
      const exact = ms + nanos / 1e6;
      const back = parseDuration(formatDuration(exact));
      assert.ok(
        back !== undefined && Math.abs(back - exact) < 2e-6,
        `${exact} ${formatDuration(exact)}`,
      );
    }),
  );
});

test("header names become canonical, and values cannot inject headers", () => {
  const row = headers("");
  assert.deepEqual(validateValue(row, { "x-API-key": ["a"] }), { value: { "X-Api-Key": ["a"] } });
  for (const bad of [{ "a b": ["x"] }, { a: ["x\r\nb: c"] }, { a: ["x"], A: ["y"] }, [], "a"]) {
    assert.ok("wanted" in validateValue(row, bad), JSON.stringify(bad));
  }
});

test("values in messages are shortened, and nested ones appear only by their kind", () => {
  const row = string("", formats.anyText, "");
  assert.equal(gotOf(row, "x".repeat(500)).length, 81);
  assert.equal(gotOf(row, 5), "5");
  assert.equal(gotOf(row, { a: 1 }), "a map");
  assert.equal(gotOf(row, [{ a: 1 }, "b"]), '["a map","b"]');
  assert.equal(
    gotOf(string("", formats.anyText, "", { secret: true }), "x"),
    "text (secret, not shown)",
  );
  assert.deepEqual(validateText(bool(false, ""), "T"), { value: true });
});

test("distance counts inserts, deletes, replacements and swaps", () => {
  assert.equal(distance("", "abc"), 3);
  assert.equal(distance("listner", "listener"), 1);
  assert.equal(distance("lsitener", "listener"), 1);
  assert.equal(distance("kitten", "sitting"), 3);
  fc.assert(
    fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (one, other) => {
      assert.equal(distance(one, other), distance(other, one));
      assert.equal(distance(one, other) === 0, one === other);
    }),
  );
});

test("a suggestion is a similar word, or there is none", () => {
  assert.equal(nearest("adr", ["addr", "network"]), "addr");
  assert.equal(nearest("LEVEL", ["level"]), "level");
  assert.equal(nearest("zzz", ["addr", "network"]), undefined);
  assert.equal(nearest("ab", ["x", "yz"]), undefined);
});
