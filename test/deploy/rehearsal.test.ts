// Scenarios for a run in real time: the requests of the simulation, and a record that is judged as a simulation is.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reportLines } from "#simulate/report.ts";
import { comparisonLines, Rehearsal, shortened } from "../../deploy/demo/play/rehearsal.ts";
import { policiesOf, run, scenarioOf } from "../simulate/scenarios.ts";

const SCENARIO = `duration: 30s
phases: [{ name: quiet, until: 10s }, { name: peak, until: 30s }]
services:
  - name: s
    control_point: p
    rate: { steps: [{ at: 0s, value: 20 }, { at: 10s, value: 60 }] }
    mix: [{ share: 1, labels: { tier: gold } }, { share: 2, labels: { tier: silver } }]
    servers: 10
    service_time: { constant: 100ms }
    queue: 5
    timeout: 1s
`;

const LEVEL = `circuit:
  evaluation_interval: 1s
  components:
    - variable: { constant_output: { value: 1 }, out_ports: { output: { signal_name: LEVEL } } }
`;

function rehearsalOf(text: string, policies: Readonly<Record<string, string>> = {}) {
  const input = { policies: policiesOf(policies), scenario: scenarioOf(text), files: new Map() };
  return new Rehearsal(input);
}

describe("a rehearsal", () => {
  it("has the requests of the simulation", async () => {
    const rehearsal = rehearsalOf(SCENARIO);
    for (const request of rehearsal.requests) {
      rehearsal.record(request, request.at, request.at + 1, "answered");
    }
    const offered = ({ rows }: Awaited<ReturnType<typeof run>>) =>
      rows.map((row) => [row.phase, row.labels, row.offered]);
    assert.deepEqual(offered(rehearsal.result()), offered(await run(SCENARIO)));
    assert.deepEqual(rehearsal.service, {
      servers: 10,
      serviceMs: 100,
      queue: 5,
      timeoutMs: 1_000,
    });
  });

  it("is judged by the scenario's expectations", () => {
    const expect = `expect:
  - { name: gold, phase: peak, accept_share: { labels: { tier: gold }, at_least: 1 } }
  - { name: silver, phase: peak, refused_share: { labels: { tier: silver }, at_least: 0.9 } }
  - { name: fast, phase: quiet, latency: { at_most: 40ms } }
  - { name: whole, failed_share: { at_most: 0 } }
  - { name: steady, range: { signal: LEVEL, at_least: 3, at_most: 4 } }
`;
    const rehearsal = rehearsalOf(`${SCENARIO}${expect}`, { level: LEVEL });
    for (const request of rehearsal.requests) {
      const { at, labels } = request;
      const gold = labels["tier"] === "gold";
      if (!gold && at >= 10_000) rehearsal.record(request, at, at + 5, "refused");
      else rehearsal.record(request, at, at + 40, gold ? "answered" : "failed");
    }
    rehearsal.recordReading("level", "root/LEVEL", 0, 3);
    rehearsal.recordReading("level", "root/LEVEL", 1_000, 4);
    const { outcomes, rows } = rehearsal.result();
    assert.deepEqual(
      outcomes.map(({ name, holds }) => [name, holds]),
      [
        ["gold", true],
        ["silver", true],
        ["fast", true],
        ["whole", false],
        ["steady", true],
      ],
    );
    assert.equal(rows.at(-1)?.refused, rows.at(-1)?.offered);
    assert.equal(rows[1]?.p95, 40);
  });

  for (const [outcome, share, p95] of [
    ["answered", "goodput", 40],
    ["refused", "refused", Number.NaN],
    ["failed", "failed", Number.NaN],
    // The time for which callers wait in vain is a latency, too.
    ["timed_out", "failed", 40],
  ] as const) {
    it(`counts requests that are ${outcome} as ${share}`, () => {
      const rehearsal = rehearsalOf(SCENARIO);
      for (const request of rehearsal.requests) {
        rehearsal.record(request, request.at, request.at + 40, outcome);
      }
      const [row] = rehearsal.result().rows;
      assert.ok(row !== undefined);
      const counted = (["goodput", "refused", "failed"] as const).filter((name) => row[name] > 0);
      assert.deepEqual(counted, [share]);
      assert.equal(row.p95, p95);
    });
  }

  it("is compared with the simulation, row by row", async () => {
    const rehearsal = rehearsalOf(SCENARIO);
    const real = rehearsal.result();
    assert.match(reportLines(real, "real")[0] ?? "", /30s of real time/);
    const lines = comparisonLines(await run(SCENARIO), real);
    assert.equal(lines.length, 7);
    assert.match(lines[1] ?? "", /^quiet 0s–10s +s +\d+\.\d +0\.0 +\d+\.\d +-$/);
  });

  it("may have a part of each phase only, its last one", () => {
    const expect =
      "expect: [{ phase: peak, goodput: { at_least: 1 } }, { from: 25s, goodput: { at_least: 1 } }]\n";
    const short = shortened(scenarioOf(`${SCENARIO}${expect}`), 12_000);
    assert.equal(short.durationMs, 22_000);
    assert.deepEqual(short.phases, [
      { name: "quiet", from: 0, until: 10_000 },
      { name: "peak", from: 10_000, until: 22_000 },
    ]);
    assert.deepEqual(
      [9_999, 10_000].map((at) => short.services[0]?.rate.at(at)),
      [20, 60],
    );
    assert.equal(short.expectations.length, 1);
    const one = shortened(short, 1_000);
    assert.deepEqual(
      [999, 1_000].map((at) => one.services[0]?.rate.at(at)),
      [20, 60],
    );
    assert.equal(one.durationMs, 2_000);
  });

  for (const [what, edit, wanted] of [
    ["retries", "    retries: { most: 1 }\n", /wanted no retries, got some/],
    ["a slowdown", "    slowdown: 2\n", /wanted no slowdown/],
    ["series", "series: [{ component: root.0, follows: 1 }]\n", /series/],
    ["changes", "dynamic_config: [{ at: 1s, values: {} }]\n", /wanted no dynamic_config, got 1/],
    ["a ramp", "    ramp_mode: true\n", /ramp_mode/],
  ] as const) {
    it(`refuses a scenario with ${what}`, () => {
      assert.throws(() => rehearsalOf(`${SCENARIO}${edit}`), wanted);
    });
  }

  it("refuses service times that are drawn by chance, and signals that do not exist", () => {
    const drawn = SCENARIO.replace("constant: 100ms", "exponential: 100ms");
    assert.throws(() => rehearsalOf(drawn), /wanted a constant service time, got exponential/);
    assert.throws(
      () => rehearsalOf(`${SCENARIO}expect: [{ spread: { signal: X, at_most: 1 } }]`),
      /a policy that has such a signal.*"X"/,
    );
    assert.throws(() => rehearsalOf("duration: 1s"), /wanted one service, got none/);
  });
});
