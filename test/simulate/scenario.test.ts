// Invalid scenario files: all findings at once, each with position, what was wanted and what was got.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { faultsOf, scenarioOf } from "./scenarios.ts";

const SERVICE =
  "{ name: s, control_point: p, rate: 1, servers: 1, service_time: { constant: 1ms } }";

describe("a scenario", () => {
  it("needs no more than its duration", () => {
    const scenario = scenarioOf("duration: 1m30s");
    assert.equal(scenario.durationMs, 90_000);
    assert.equal(scenarioOf("duration: 0.25s").durationMs, 250);
    assert.equal(scenario.seed, 1);
    assert.equal(scenario.sampleMs, 1_000);
    assert.equal(scenario.agentGroup, "default");
    assert.deepEqual(scenario.phases, [{ name: "all", from: 0, until: 90_000 }]);
  });

  it("is JSON too", () => {
    assert.equal(scenarioOf('{"duration": "10s", "seed": 4}').seed, 4);
  });

  it("has consecutive phases, and the rest is a further phase", () => {
    const text = "duration: 9s\nphases: [{ name: a, until: 2s }, { name: b, until: 5s }]";
    assert.deepEqual(scenarioOf(text).phases, [
      { name: "a", from: 0, until: 2_000 },
      { name: "b", from: 2_000, until: 5_000 },
      { name: "rest", from: 5_000, until: 9_000 },
    ]);
  });

  it("reports all findings at once, in the order of the text", () => {
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
  one("text that is not YAML", "duration: [", /wanted well-formed YAML/);
  one("a key twice", "duration: 1s\nduration: 2s", /2:1: duration: wanted each key once/);
  one("no duration", "seed: 1", /duration: wanted a value, got nothing/);
  one("a duration of nothing", "duration: 0s", /wanted a duration above 0s/);
  one("days on end", "duration: 25h", /wanted at most 24h/);
  one(
    "a name of two services",
    `duration: 1s\nservices:\n  - ${SERVICE}\n  - ${SERVICE}`,
    /4:7: services\[1\].name: wanted each name once, got s twice/,
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
    /wanted a time after 2000 ms: points must be in order, got 1000 ms/,
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

describe("the size of a scenario", () => {
  const service = (rate: string, more = "") =>
    `services:\n  - { name: s, control_point: p, rate: ${rate}, servers: 1, service_time: { constant: 1ms }${more} }`;
  const rated = (rate: string, duration = "60s", more = "") =>
    faultsOf(`duration: ${duration}\n${service(rate, more)}`);

  it("is bounded in metric samples", () => {
    assert.deepEqual(faultsOf(`duration: 24h\nsample_every: 0.000001s\n${service("1")}`), [
      "2:1: sample_every: wanted at most 10000000 readings of meters, got 864000000000: 86400000000 samples × 10 series",
    ]);
    assert.equal(faultsOf("duration: 24h\nsample_every: 1ms").length, 1, "without a service too");
    assert.deepEqual(faultsOf(`duration: 24h\nsample_every: 100ms\n${service("1")}`), []);
  });

  it("is bounded in phases, rows and expectations", () => {
    const phases = (count: number) =>
      Array.from({ length: count }, (_, at) => `{ name: p${at}, until: ${at + 1}s }`);
    const faults = faultsOf(`duration: 300s\nphases: [${phases(201)}]`);
    assert.deepEqual(faults, ["2:1: phases: wanted at most 200 phases, got 201"]);
    const mix = `, mix: [${Array.from({ length: 9 }, () => "{ share: 1 }")}]`;
    const wide = `duration: 300s\nphases: [${phases(100)}]\n${service("1", mix)}`;
    assert.match(faultsOf(wide)[0] ?? "", /3:1: services: wanted at most 1000 rows .* got 1010/);
    const expect = Array.from({ length: 501 }, () => "{ alerts: { at_most: 0 } }");
    assert.match(faultsOf(`duration: 1s\nexpect: [${expect}]`)[0] ?? "", /at most 500 exp.* 501/);
  });

  it("is bounded in requests by rates and the duration alone", () => {
    assert.deepEqual(rated("1000000000"), [
      "3:34: services[0].rate: wanted at most 5000000 requests of all services together: lower rates, or a shorter duration, got about 60000000000",
    ]);
    assert.deepEqual(rated("83333"), []);
    assert.equal(rated("83400").length, 1);
    assert.deepEqual(rated("{ line: [{ at: 0s, value: 0 }, { at: 60s, value: 166600 }] }"), []);
    assert.equal(rated("{ sine: { mean: 0, amplitude: 400000, period: 10s } }").length, 1);
    const two = `duration: 60s\n${service("50000")}\n${service("50000").split("\n")[1]?.replace("name: s", "name: t")}`;
    assert.match(faultsOf(two)[0] ?? "", /services\[1\].rate: .* got about 6000000$/);
  });

  it("is bounded in draws of random arrivals", () => {
    const peak = "{ steps: [{ at: 0s, value: 1000 }, { at: 60s, value: 1 }] }";
    assert.match(rated(peak, "24h")[0] ?? "", /highest rate × duration .* got 86400000$/);
    assert.deepEqual(rated(peak, "24h", ", arrivals: uniform"), []);
    assert.deepEqual(rated(peak, "12h"), []);
  });
});
