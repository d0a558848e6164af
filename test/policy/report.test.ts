// What people read of a set: lines for faults, doubts and what was found good; and the reference page.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { componentsPage } from "#policy/reference.ts";
import { setLines } from "#policy/report.ts";
import { component } from "../../src/policy/language/policy.ts";
import { circuit, judged } from "./kit.ts";

describe("a set as lines", () => {
  test("a good policy: its hash, its components and what goes to agents", () => {
    const text = circuit(
      "variable: {constant_output: {value: 1}, out_ports: {output: {signal_name: A}}}",
      "flow_control: {sampler: {in_ports: {accept_percentage: {signal_name: A}}, parameters: {selectors: [{control_point: x}]}}}",
    );
    const set = judged(text, "good");
    const [policy] = set.policies;
    assert.deepEqual(setLines(set), [
      `good.yaml: policy good (${policy?.of.hash}): 2 components in the circuit, 1 for agents`,
    ]);
  });

  test("faults before warnings, each with its place", () => {
    const set = judged(
      circuit("differentiator: {}", "decider: {operator: is}", "query: {promql: {query: up}}"),
    );
    const lines = setLines(set);
    assert.deepEqual(
      lines.map((line) => line.slice(0, line.indexOf(": wanted") + 1 || undefined)),
      [
        "p.yaml:4:27: circuit.components[1].decider.operator:",
        "p.yaml:5:24: circuit.components[2].query.promql.query:",
        "p.yaml:3:7: circuit.components[0].differentiator: deprecated (warning)",
      ],
    );
  });

  test("what a terminal would obey is written as its code", () => {
    const [line = ""] = setLines(judged('circuit: {"\\u001b[2J\\u202e": 1}'));
    assert.match(line, /\\u001b\[2J\\u202e/);
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u);
  });
});

describe("the reference page", () => {
  const page = componentsPage();
  test("has a section for every component, and links to it", () => {
    const groups = ["flow_control", "auto_scale", "query"];
    const plain = Object.keys(component.fields).filter((name) => !groups.includes(name));
    for (const name of [
      ...plain,
      "flow_control.load_ramp",
      "query.promql",
      "resources.infra_meters",
    ]) {
      assert.ok(page.includes(`\n### ${name}\n`), name);
      const anchor = name.replaceAll(".", "");
      assert.ok(page.includes(`[\`${name}\`](#${anchor})`), name);
    }
  });
  test("says ports, defaults, rules and words, and what agents do not act on", () => {
    for (const row of [
      "| `bucket_capacity` | in | required | Tokens that a bucket holds at most. |",
      "| `parameters.interval` | duration |  | required; above 0s | Time in which `fill_amount` tokens come. |",
      "| `true_for` | duration | `0s` |  | How long it must hold before it counts as true. |",
    ]) {
      assert.ok(page.includes(row), row);
    }
    assert.match(page, /\[`auto_scale\.pod_scaler`\].* \| published only \|/);
    assert.match(page, /\[`flow_control\.rate_limiter`\].* \| agents \|/);
  });
});
