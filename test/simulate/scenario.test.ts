// Scenario files at fault: every fault at once, each with its place, what was wanted and what was got.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { faultsOf, scenarioOf } from "./scenarios.ts";

const SERVICE =
  "{ name: s, control_point: p, rate: 1, servers: 1, service_time: { constant: 1ms } }";

describe("a scenario", () => {
  it("needs no more than its duration", () => {
    const scenario = scenarioOf("duration: 1m30s");
    assert.equal(scenario.durationMs, 90_000);
    assert.equal(scenario.seed, 1);
    assert.equal(scenario.sampleMs, 1_000);
    assert.equal(scenario.agentGroup, "default");
    assert.deepEqual(scenario.phases, [{ name: "all", from: 0, until: 90_000 }]);
  });

  it("is JSON too", () => {
    assert.equal(scenarioOf('{"duration": "10s", "seed": 4}').seed, 4);
  });

  it("has phases that follow each other, and what is left is one more", () => {
    const text = "duration: 9s\nphases: [{ name: a, until: 2s }, { name: b, until: 5s }]";
    assert.deepEqual(scenarioOf(text).phases, [
      { name: "a", from: 0, until: 2_000 },
      { name: "b", from: 2_000, until: 5_000 },
      { name: "rest", from: 5_000, until: 9_000 },
    ]);
  });

  it("tells all its faults at once, in the order of the text", () => {
    const text = [
      "duratoin: 10s",
      "seed: -1",
      "services:",
      "  - name: s",
      "    control_point: p",
      "    rate: -5",
      "    servers: 1.5",
      "    service_time: { exponental: 1ms }",
      "    retries: { most: 1, of: [refuse] }",
      "expect:",
      "  - latency: { below: 100 }",
    ].join("\n");
    assert.deepEqual(faultsOf(text), [
      '1:1: duratoin: wanted a key of a scenario; did you mean duration?, got the unknown key "duratoin"',
      "2:7: seed: wanted a whole number of at least 0 and of at most 4294967295, got the number -1",
      "6:11: services[0].rate: wanted a number of at least 0, got the number -5",
      "7:14: services[0].servers: wanted a whole number of at least 1 and of at most 100000, got the number 1.5",
      '8:21: services[0].service_time.exponental: wanted a key of a service time; did you mean exponential?, got the unknown key "exponental"',
      '9:30: services[0].retries.of[0]: wanted one of refused, failed; did you mean refused?, got "refuse"',
      "11:23: expect[0].latency.below: wanted a duration of at least 0s, such as 250ms, 10s or 1m30s, got the number 100",
    ]);
  });

  const one = (name: string, text: string, wanted: RegExp) => {
    it(`refuses ${name}`, () => {
      const faults = faultsOf(text);
      assert.equal(faults.length, 1, faults.join("\n"));
      assert.match(faults[0] ?? "", wanted);
    });
  };

  one("an empty text", "", /wanted one scenario, got no document/);
  one("two documents", "duration: 1s\n---\nduration: 1s", /wanted one scenario, got several/);
  one("what is no YAML", "duration: [", /wanted well-formed YAML/);
  one("a key twice", "duration: 1s\nduration: 2s", /2:1: duration: wanted each key once/);
  one("no duration", "seed: 1", /duration: wanted a value, got nothing/);
  one("a duration of nothing", "duration: 0s", /wanted a duration above 0s/);
  one("days on end", "duration: 25h", /wanted at most 24h/);
  one(
    "a name of two services",
    `duration: 1s\nservices:\n  - ${SERVICE}\n  - ${SERVICE}`,
    /4:7: services\[1\].name: wanted each name once, got s again/,
  );
  one(
    "phases out of order",
    "duration: 9s\nphases: [{ name: a, until: 5s }, { name: b, until: 2s }]",
    /phases\[1\].until: wanted a time after 5000 ms, got 2000 ms/,
  );
  one(
    "a phase after the end",
    "duration: 1s\nphases: [{ name: a, until: 5s }]",
    /wanted a time within duration/,
  );
  one(
    "points out of order",
    "duration: 1s\nseries: [{ query: up, follows: { line: [{ at: 2s, value: 1 }, { at: 1s, value: 1 }] } }]",
    /wanted a time after 2000 ms: points stand in order, got 1000 ms/,
  );
  one(
    "two forms of a number over time",
    "duration: 1s\nseries: [{ query: up, follows: { steps: [{ at: 0s, value: 1 }], sine: { mean: 1, amplitude: 1, period: 1s } } }]",
    /wanted a number over time: an object with one key out of steps, line, sine, sum, got steps and sine/,
  );
  one(
    "a series without an answer",
    "duration: 1s\nseries: [{ query: up }]",
    /wanted one out of follows, by_label, recording, got none/,
  );
  one(
    "a series for a query and a component",
    "duration: 1s\nseries: [{ query: up, component: root.0, follows: 1 }]",
    /wanted one out of query, component, got query and component/,
  );
  one("an expectation of nothing", "duration: 1s\nexpect: [{ from: 0s }]", /wanted one measure/);
  one(
    "an expectation of two things",
    "duration: 1s\nexpect: [{ alerts: { at_most: 0 }, goodput: { above: 1 } }]",
    /wanted one measure out of .*, got goodput and alerts/,
  );
  one(
    "an expectation without a bound",
    "duration: 1s\nexpect: [{ goodput: {} }]",
    /expect\[0\].goodput: wanted a bound: above, below, at_least, at_most, got none/,
  );
  one(
    "a share above one",
    "duration: 1s\nexpect: [{ accept_share: { at_least: 99 } }]",
    /wanted a number of at least 0 and of at most 1/,
  );
  one(
    "a window that ends before it begins",
    "duration: 9s\nexpect: [{ from: 5s, until: 2s, alerts: { at_most: 0 } }]",
    /wanted a time after 5000 ms, got 2000 ms/,
  );
  one(
    "a lognormal time whose 95th percentile lies below its median",
    `duration: 1s\nservices: [{ name: s, control_point: p, rate: 1, servers: 1, service_time: { lognormal: { median: 2ms, p95: 1ms } } }]`,
    /p95: wanted at least the median/,
  );
});
