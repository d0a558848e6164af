// Series recorded from Prometheus, as JSON and as CSV.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Fault } from "#base/fault.ts";
import { readRecording } from "#simulate/scenario/recording.ts";

const ANY = { labels: {}, column: undefined };

const MATRIX = JSON.stringify({
  status: "success",
  data: {
    resultType: "matrix",
    result: [
      {
        metric: { job: "a" },
        values: [
          [1700000000, "1"],
          [1700000015, "2.5"],
          [1700000030, "NaN"],
        ],
      },
      { metric: { job: "b" }, values: [[1700000000.5, "+Inf"]] },
    ],
  },
});

function refusal(text: string, choice = ANY): string {
  try {
    readRecording(text, choice);
  } catch (thrown) {
    assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT");
    return thrown.message;
  }
  return "none";
}

describe("a recording", () => {
  it("as query_range answers it: each sample stands until the next", () => {
    const profile = readRecording(MATRIX, { labels: { job: "a" }, column: undefined });
    assert.equal(profile.at(0), 1);
    assert.equal(profile.at(14_999), 1);
    assert.equal(profile.at(15_000), 2.5);
    assert.ok(Number.isNaN(profile.at(30_000)));
    assert.equal(profile.max, 2.5);
    const other = readRecording(MATRIX, { labels: { job: "b" }, column: undefined });
    assert.equal(other.at(0), Number.POSITIVE_INFINITY);
  });

  it("is the bare list of series too", () => {
    const { data } = JSON.parse(MATRIX);
    const choice = { labels: { job: "a" }, column: undefined };
    assert.equal(readRecording(JSON.stringify(data), choice).at(0), 1);
    assert.equal(readRecording(JSON.stringify(data.result), choice).at(0), 1);
  });

  it("as CSV, with times in seconds, milliseconds or as dates", () => {
    for (const [first, second] of [
      ["1700000000", "1700000015"],
      ["1700000000000", "1700000015000"],
      ["2023-11-14T22:13:20Z", "2023-11-14T22:13:35Z"],
      ["2023-11-14 22:13:20", "2023-11-14 22:13:35.000"],
      ["2024-02-29T23:59:50+00:00", "2024-03-01T01:00:05+01:00"],
    ]) {
      const profile = readRecording(`time,value\n${first},4\n${second},5\n`, ANY);
      assert.deepEqual([profile.at(0), profile.at(14_999), profile.at(15_000)], [4, 4, 5]);
    }
  });

  it("takes one column of several by its name, quoted or not, whatever the line ends", () => {
    const text = '\uFEFF"Time","a, in ms",b\r\n0,1,2\r\n1,"3",""\r\n';
    const column = (name: string) => readRecording(text, { labels: {}, column: name });
    assert.equal(column("a, in ms").at(1_000), 3);
    assert.equal(column("b").at(0), 2);
    assert.ok(Number.isNaN(column("b").at(1_000)));
  });

  it("ends when nothing more was recorded, as a metrics server forgets", () => {
    const profile = readRecording("time,value\n0,4\n", ANY);
    assert.equal(profile.at(300_000), 4);
    assert.ok(Number.isNaN(profile.at(300_001)));
  });

  for (const [text, wanted] of [
    ["", /a first line with the columns' names, got an empty file/],
    ["when,value\n1,2\n", /a column time or timestamp, got the columns when, value/],
    ["time,a,b\n1,2,3\n", /a column by name, got the columns a, b/],
    ["time,value\nyesterday,2\n", /ISO date as time, got another form in row 2/],
    ["time,value\n1,much\n", /numbers as values, got another form in row 2/],
    ["time,value\n2,1\n1,1\n", /times that rise, got sample 2/],
    ["time,value\n", /at least one sample, got none/],
    ["{", /wanted JSON/],
    ["{}", /the answer of query_range/],
    [MATRIX, /one series with these labels, got 2/],
    ['[{"metric":{},"value":[1,"2"]}]', /series with values \(a matrix\)/],
    ['[{"metric":{},"values":[["1","2"]]}]', /pairs of Unix seconds/],
  ] as const) {
    it(`refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.match(refusal(text), wanted);
    });
  }
});
