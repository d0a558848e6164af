// Formatted findings, warnings and results, and the reference page.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setLines } from "#policy/format.ts";
import { component } from "#policy/language/policy.ts";
import type { CompiledSet } from "#policy/set.ts";
import { componentsPage } from "../tools/reference/policy-page.ts";
import { circuit, judged } from "./kit.ts";

function textsOf(set: CompiledSet): readonly string[] {
  return setLines(set).map(({ text }) => text);
}

describe("a set as lines", () => {
  test("a valid policy: its hash, its components and the configurations for agents", () => {
    const text = circuit(
      "variable: {constant_output: {value: 1}, out_ports: {output: {signal_name: A}}}",
      "flow_control: {sampler: {in_ports: {accept_percentage: {signal_name: A}}, parameters: {selectors: [{control_point: x}]}}}",
    );
    const set = judged(text, "good");
    const [policy] = set.policies;
    assert.deepEqual(textsOf(set), [
      `good.yaml: policy good (${policy?.hash}): 2 components in the circuit, 1 for agents`,
      "valid: 1 policy",
    ]);
  });

  test("findings come before warnings, each with its position", () => {
    const set = judged(
      circuit("differentiator: {}", "decider: {operator: is}", "query: {promql: {query: up}}"),
    );
    const lines = textsOf(set);
    assert.deepEqual(
      lines.map((line) => line.slice(0, line.indexOf(": wanted") + 1 || undefined)),
      [
        "p.yaml:4:27: circuit.components[1].decider.operator:",
        "p.yaml:5:24: circuit.components[2].query.promql.query:",
        "p.yaml:3:7: circuit.components[0].differentiator: deprecated (warning deprecated)",
        "not valid: 2 faults; 1 warning",
      ],
    );
  });

  test("control characters are escaped", () => {
    const [line = ""] = textsOf(judged('circuit: {"\\u001b[2J\\u202e": 1}'));
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
  test("lists ports, defaults, rules and descriptions, and what agents do not act on", () => {
    for (const row of [
      "| `bucket_capacity` | in | required | Maximum number of tokens in a bucket. |",
      "| `parameters.interval` | duration |  | required; above 0s | Time in which `fill_amount` tokens are added. |",
      "| `true_for` | duration | `0s` |  | Time for which the comparison must hold before the decision becomes true. |",
    ]) {
      assert.ok(page.includes(row), row);
    }
    assert.match(page, /\[`resources\.infra_meters`\].* \| published only \|/);
    assert.match(page, /\[`auto_scale\.pod_scaler`\].* \| controller \|/);
    assert.match(page, /\[`flow_control\.rate_limiter`\].* \| agents \|/);
  });
});
