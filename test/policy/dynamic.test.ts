import assert from "node:assert/strict";
import { test } from "node:test";
import { dynamicKeys, judgeDynamicConfig } from "#policy/dynamic.ts";
import { Report } from "#policy/finding.ts";
import { judge } from "#policy/judge.ts";
import { readPolicies } from "#policy/read.ts";
import { policy } from "../../src/policy/language/policy.ts";

const SPEC = `circuit:
    components:
      - variable: {constant_output: {value: 1}, config_key: limit}
      - nested_circuit:
          components:
            - bool_variable: {config_key: a.b}
            - flow_control: {sampler: {parameters: {selectors: [{control_point: x}]}, pass_through_label_values_config_key: vip}}
            - gradient_controller: {parameters: {slope: 1}, manual_mode_config_key: a.c}`;

function judged(config: string): string[] {
  const text = `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n  ${SPEC}\ndynamicConfig: ${config}`;
  const [document] = readPolicies(text, "p").documents;
  assert.ok(document?.dynamicConfig);
  const report = new Report();
  const value = judge(policy, document.tree, document.path, report);
  assert.ok(value, JSON.stringify(report.findings));
  judgeDynamicConfig(value, document.dynamicConfig, ["dynamicConfig"], report);
  return report.warnings.map(({ path, text: said }) => `${path}: ${said}`);
}

test("keys and their forms, wherever a component stands", () => {
  const [document] = readPolicies(SPEC.replaceAll("\n  ", "\n"), "p").documents;
  const value = judge(policy, document?.tree ?? assert.fail(), [], new Report());
  const keys = dynamicKeys(value ?? assert.fail());
  assert.deepEqual(
    [...keys].map(([key, forms]) => [key, ...forms]),
    [
      ["limit", "constant"],
      ["a.b", "boolean"],
      ["vip", "texts"],
      ["a.c", "boolean"],
    ],
  );
});

test("what fits is not spoken of", () => {
  for (const config of [
    "{}",
    "{limit: {value: 5}, a: {b: true, c: 0}, vip: [x, y]}",
    "{limit: {special_value: +Inf}, a.b: 'false', vip: []}",
    "{limit: {}, vip: null}",
    "{a: {b: true}, a.b: false}",
  ]) {
    assert.deepEqual(judged(config), [], config);
  }
});

const SAID: readonly (readonly [config: string, said: RegExp])[] = [
  [
    "{limits: {value: 5}}",
    /^dynamicConfig\.limits: set aside: no component reads "limits"; did you mean limit\?$/,
  ],
  [
    "{a: {d: true}}",
    /^dynamicConfig\.a\.d: set aside: no component reads "a\.d"; did you mean a\.[bc]\?$/,
  ],
  ["{limit: 5}", /^dynamicConfig\.limit: set aside: wanted \{value: number\}.*got the number 5$/],
  ["{limit: {value: '5'}}", /wanted \{value: number\}/],
  ["{limit: {value: 5, special_value: NaN}}", /wanted \{value: number\}/],
  ["{limit: {special_value: nan}}", /wanted \{value: number\}/],
  ["{a.b: yes}", /^dynamicConfig\["a\.b"\]: set aside: wanted true or false, got "yes"$/],
  ["{limit: {value: 1e999}}", /wanted \{value: number\}/],
  ["{limit: {special_value: toString}}", /wanted \{value: number\}/],
  ["{a: {b: true}, a.b: maybe}", /^dynamicConfig\["a\.b"\]: set aside: wanted true or false/],
  ["{a.b: maybe, a: {b: true}}", /^dynamicConfig\["a\.b"\]: set aside: wanted true or false/],
  ["{x.y: {z: 1}}", /^dynamicConfig\["x\.y"\]: set aside: no component reads "x\.y"/],
  ["{a: 1}", /^dynamicConfig\.a: set aside: no component reads "a"/],
  ["{vip: x}", /wanted a list of texts, got "x"$/],
  ["{vip: [1]}", /wanted a list of texts, got a list$/],
];

for (const [config, said] of SAID) {
  test(`set aside: ${config}`, () => {
    const [line = "", ...more] = judged(config);
    assert.match(line, said);
    assert.deepEqual(more, []);
  });
}

test("only the first few get a suggestion: each is compared with every key", () => {
  const lines = judged(`{${Array.from({ length: 20 }, (_, at) => `limit${at}: 1`).join(", ")}}`);
  assert.equal(lines.length, 20);
  assert.equal(lines.filter((line) => line.includes("did you mean limit?")).length, 5);
});
