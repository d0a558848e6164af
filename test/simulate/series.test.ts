// Measures of series: reversals and time windows; and plots.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { axisTicks } from "#simulate/plot/scale.ts";
import { plotSvg } from "#simulate/plot.ts";
import { reversals, within } from "#simulate/run/results/series.ts";

describe("reversals", () => {
  it("are turns after a move of more than the amplitude", () => {
    assert.equal(reversals([0, 10, 0, 10, 0], 5), 3);
    assert.equal(reversals([0, 10, 0, 10, 0], 10), 0);
    assert.equal(reversals([0, 4, 1, 8, 5, 12], 5), 0, "a climb with small slips does not turn");
    assert.equal(reversals([5, 0, 10, 9, 10, 2], 4), 2);
    assert.equal(reversals([0, Number.NaN, 10, Number.NaN, 0], 5), 1);
    assert.equal(reversals([], 5), 0);
  });

  it("count each half wave of a sine", () => {
    const wave = Array.from({ length: 1_000 }, (_, at) => Math.sin((2 * Math.PI * at) / 100));
    assert.equal(reversals(wave, 0.5), 20);
    assert.equal(reversals(wave, 1.99), 18, "the way from the middle and back to it is too small");
    assert.equal(reversals(wave, 2), 0);
  });

  it("are invariant under inversion and reversal, and never more with a larger amplitude", () => {
    const lines = fc.array(fc.integer({ min: -50, max: 50 }), { maxLength: 60 });
    fc.assert(
      fc.property(lines, fc.integer({ min: 1, max: 60 }), (line, amplitude) => {
        const turns = reversals(line, amplitude);
        assert.equal(
          reversals(
            line.map((value) => -value),
            amplitude,
          ),
          turns,
        );
        assert.equal(reversals(line.toReversed(), amplitude), turns);
        assert.ok(reversals(line, amplitude + 1) <= turns);
      }),
    );
  });
});

describe("a time window", () => {
  it("includes its start and excludes its end", () => {
    const line = { name: "x", times: [0, 1, 2, 3], values: [5, 6, 7, 8] };
    assert.deepEqual(within(line, 1, 3), [6, 7]);
  });
});

describe("a plot", () => {
  const plot = (values: readonly number[]) =>
    plotSvg({
      title: "a <policy>",
      durationMs: 4_000,
      phases: [
        { name: "calm", from: 0, until: 2_000 },
        { name: "storm & stress", from: 2_000, until: 4_000 },
      ],
      panels: [
        {
          title: "numbers",
          lines: [
            { name: "A", times: [0, 1_000, 2_000, 3_000], values },
            { name: "B", times: [0], values: [1] },
          ],
        },
      ],
    });

  it("draws lines with gaps where readings are invalid, phases, axes and names", () => {
    const svg = plot([0, 10, Number.NaN, 5]);
    assert.match(svg, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" viewBox="0 0 960 /);
    assert.match(svg, / d="M64 226L284 83.1M724 154.6"/);
    assert.match(svg, /storm &amp; stress/);
    assert.match(svg, /a &lt;policy&gt;/);
    assert.match(svg, />▬ A</);
    assert.match(svg, /prefers-color-scheme: dark/);
    assert.match(svg, /class="shade"/);
    assert.match(svg, />2s</);
    assert.doesNotMatch(svg, /NaN|Infinity/);
  });

  it("draws level, negative and infinite lines", () => {
    for (const values of [[0, 0], [-3, -1], [Number.POSITIVE_INFINITY, 2], [Number.NaN]]) {
      assert.doesNotMatch(plot(values), /NaN|Infinity/);
    }
  });

  it("has round numbers on its axes", () => {
    assert.deepEqual(axisTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(axisTicks(-1, 1, 4), [-1, -0.5, 0, 0.5, 1]);
    assert.deepEqual(axisTicks(0, 600, 10), [0, 100, 200, 300, 400, 500, 600]);
  });
});
