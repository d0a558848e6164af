// The warning about decisions that flip for ever, because they act at once on the flows that they measure.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { compiled } from "../kit.ts";

const COUNTING =
  'query: {promql: {query_string: "sum(rate(flux_meter_count{flux_meter_name=\\"own\\"}[5s]))", evaluation_interval: 1s, out_ports: {output: {signal_name: MEASURED}}}}';
const DECIDER = decider("");
const LIMITER = `flow_control: {concurrency_limiter: {selectors: [{control_point: cp}], in_ports: {max_concurrency: {signal_name: LIMIT}}, parameters: {max_inflight_duration: 10s}}}`;
const SWITCH = switcher("SLOW", "LIMIT");

function decider(more: string): string {
  return `decider: {operator: gt, ${more}in_ports: {lhs: {signal_name: MEASURED}, rhs: {constant_signal: {value: 80}}}, out_ports: {output: {signal_name: SLOW}}}`;
}

function switcher(by: string, output: string): string {
  return `switcher: {in_ports: {switch: {signal_name: ${by}}, on_signal: {constant_signal: {value: 5}}, off_signal: {constant_signal: {value: 50}}}, out_ports: {output: {signal_name: ${output}}}}`;
}

function ramp(ports: string): string {
  return `flow_control: {load_ramp: {in_ports: {${ports}}, parameters: {sampler: {selectors: [{control_point: cp}]}, steps: [{target_accept_percentage: 5, duration: 10s}, {target_accept_percentage: 100, duration: 60s}]}}}`;
}

/** A component with one input and one output. */
function between(kind: string, from: string, to: string, parameters = ""): string {
  return `${kind}: {${parameters}in_ports: {input: {signal_name: ${from}}}, out_ports: {output: {signal_name: ${to}}}}`;
}

/** The places that are warned about, without what they have in common. */
function flapping(...components: readonly string[]): readonly string[] {
  const { warnings } = compiled(`
resources: {flow_control: {flux_meters: {own: {selectors: [{control_point: cp}]}}}}
circuit:
  evaluation_interval: 1s
  components:
${components.map((each) => `    - ${each}`).join("\n")}
`);
  return warnings
    .filter(({ code }) => code === "flapping")
    .map(({ path }) => path.replace(/^.*?circuit\.components/, ""));
}

describe("is given", () => {
  test("where a limit follows a decision at once", () => {
    assert.deepEqual(flapping(COUNTING, DECIDER, SWITCH, LIMITER), ["[1]"]);
  });

  test("where a measurement that was smoothed takes a ramp back to its start", () => {
    const smooth = between(
      "ema",
      "MEASURED",
      "SMOOTH",
      "parameters: {ema_window: 5s, warmup_window: 1s}, ",
    );
    const decides = DECIDER.replace("MEASURED", "SMOOTH");
    assert.deepEqual(flapping(COUNTING, smooth, decides, ramp("reset: {signal_name: SLOW}")), [
      "[2]",
    ]);
  });

  test("where signals pass logic and a nested circuit on their way", () => {
    const nested = `nested_circuit:
        in_ports_map: {in: {signal_name: SLOW}}
        out_ports_map: {out: {signal_name: LIMIT}}
        components:
          - nested_signal_ingress: {port_name: in, out_ports: {signal: {signal_name: IN}}}
          - ${between("inverter", "IN", "FINE")}
          - ${switcher("FINE", "OUT")}
          - nested_signal_egress: {port_name: out, in_ports: {signal: {signal_name: OUT}}}`;
    assert.deepEqual(flapping(COUNTING, DECIDER, nested, LIMITER), ["[1]"]);
  });

  test("for a decider in a nested circuit, at its place", () => {
    const nested = `nested_circuit:
        out_ports_map: {out: {signal_name: LIMIT}}
        components:
          - ${COUNTING}
          - ${DECIDER}
          - ${switcher("SLOW", "OUT")}
          - nested_signal_egress: {port_name: out, in_ports: {signal: {signal_name: OUT}}}`;
    assert.deepEqual(flapping(nested, LIMITER), ["[0].nested_circuit.components[1]"]);
  });
});

describe("is given whatever selects the own flux meter", () => {
  for (const selector of [
    'flux_meter_sum{flux_meter_name=~\\"o.*\\"}',
    'flux_meter_count{flux_meter_name!=\\"other\\"}',
    "flux_meter_bucket",
    '{__name__=~\\"flux_meter_.*\\"}',
  ]) {
    test(selector, () => {
      const asks = COUNTING.replace(/query_string: ".*\)\)"/, `query_string: "sum(${selector})"`);
      assert.deepEqual(flapping(asks, DECIDER, SWITCH, LIMITER), ["[1]"]);
    });
  }
});

test("is given with a hold of one tick, after which the decision has had its effect", () => {
  assert.deepEqual(flapping(COUNTING, decider("true_for: 1s, "), SWITCH, LIMITER), ["[1]"]);
});

describe("is not given", () => {
  for (const hold of ["true_for: 5s, ", "false_for: 5s, "]) {
    test(`with ${hold}`, () => {
      assert.deepEqual(flapping(COUNTING, decider(hold), SWITCH, LIMITER), []);
    });
  }

  test("where a later decider holds", () => {
    const later = `decider: {operator: gt, true_for: 5s, in_ports: {lhs: {signal_name: SLOW}, rhs: {constant_signal: {value: 0.5}}}, out_ports: {output: {signal_name: LONG_SLOW}}}`;
    assert.deepEqual(
      flapping(COUNTING, DECIDER, later, switcher("LONG_SLOW", "LIMIT"), LIMITER),
      [],
    );
  });

  for (const [kind, parameters] of [
    ["holder", "hold_for: 60s, "],
    ["ema", "parameters: {ema_window: 5s, warmup_window: 1s}, "],
    ["sma", "parameters: {sma_window: 5s}, "],
    ["integrator", ""],
  ] as const) {
    test(`where the limit follows slowly, by ${kind}`, () => {
      const slowly = between(kind, "AIM", "LIMIT", parameters);
      assert.deepEqual(flapping(COUNTING, DECIDER, switcher("SLOW", "AIM"), slowly, LIMITER), []);
    });
  }

  test("where a loop keeps the decision until something else ends it", () => {
    const latch = [
      "first_valid: {in_ports: {inputs: [{signal_name: KEPT}, {constant_signal: {value: 0}}]}, out_ports: {output: {signal_name: BEFORE}}}",
      "or: {in_ports: {inputs: [{signal_name: SLOW}, {signal_name: BEFORE}]}, out_ports: {output: {signal_name: KEPT}}}",
    ];
    assert.deepEqual(flapping(COUNTING, DECIDER, ...latch, switcher("KEPT", "LIMIT"), LIMITER), []);
    // Beside the loop, the same decision acts at once.
    assert.deepEqual(flapping(COUNTING, DECIDER, ...latch, SWITCH, LIMITER), ["[1]"]);
  });

  test("where a ramp moves step by step", () => {
    const ports = "forward: {constant_signal: {value: 1}}, backward: {signal_name: SLOW}";
    assert.deepEqual(flapping(COUNTING, DECIDER, ramp(ports)), []);
  });

  test("where the decision only raises an alert", () => {
    const alerter =
      "alerter: {in_ports: {signal: {signal_name: SLOW}}, parameters: {alert_name: slow}}";
    assert.deepEqual(flapping(COUNTING, DECIDER, alerter), []);
  });

  test("where flows do not change the measurement", () => {
    for (const query of [
      "hour()",
      'flux_meter_count{flux_meter_name=\\"other\\"}',
      'flux_meter_count{flux_meter_name!~\\"o.*\\"}',
      "http_requests_total",
      '{__name__=\\"http_requests_total\\"}',
    ]) {
      const asks = COUNTING.replace(/query_string: ".*\)\)"/, `query_string: "${query}"`);
      assert.deepEqual(flapping(asks, DECIDER, SWITCH, LIMITER), [], query);
    }
  });
});
