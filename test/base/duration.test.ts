import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatSeconds, parseDuration, parseSeconds } from "#base/duration.ts";

test("the protobuf-JSON form is seconds and nothing else", () => {
  const good: Readonly<Record<string, number>> = {
    "10s": 10_000,
    "0s": 0,
    "0.25s": 250,
    "-1.5s": -1_500,
    "0.000000001s": 1e-6,
  };
  for (const [text, ms] of Object.entries(good)) assert.equal(parseSeconds(text), ms, text);
  for (const text of [
    "",
    "5",
    "1m",
    "1h30m",
    "soon",
    "0.0000000001s",
    ".5s",
    "1s ",
    "1 s",
    "+1s",
  ]) {
    assert.equal(parseSeconds(text), undefined, text);
  }
});

test("the full form adds several units", () => {
  const good: Readonly<Record<string, number>> = {
    "1m30s": 90_000,
    "100ms": 100,
    "1h": 3_600_000,
    "1.5s": 1_500,
    "-2s": -2_000,
    "0": 0,
    "250us": 0.25,
  };
  for (const [text, ms] of Object.entries(good)) assert.equal(parseDuration(text), ms, text);
  for (const text of ["", "-", "5", "s", "1d", "1s1", "1 s", "1s 2s", "--1s"]) {
    assert.equal(parseDuration(text), undefined, text);
  }
});

test("formatted durations parse to the same nanosecond", () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e13, max: 1e13 }), (micros) => {
      const ms = micros / 1_000;
      const read = parseSeconds(formatSeconds(ms)) ?? Number.NaN;
      assert.ok(Math.abs(read - ms) < 1e-5, `${ms} became ${read}`);
    }),
  );
  assert.equal(formatSeconds(0), "0s");
  assert.equal(formatSeconds(1_500), "1.500s");
  assert.equal(formatSeconds(0.0015), "0.000001500s");
  assert.equal(formatSeconds(-0), "0s");
});
