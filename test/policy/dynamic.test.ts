import assert from "node:assert/strict";
import { test } from "node:test";
import { Report } from "#policy/document/finding.ts";
import { readPolicies } from "#policy/document/read.ts";
import {
  checkDynamicConfig,
  type DynamicKeys,
  dynamicKeys,
  dynamicKeysOf,
  unfitValues,
  unreadKeys,
} from "#policy/dynamic.ts";
import { policy } from "#policy/language/policy.ts";
import { validate } from "#policy/validate.ts";
import { compiled } from "./kit.ts";

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
  const value = validate(policy, document.tree, document.path, report);
  assert.ok(value, JSON.stringify(report.findings));
  checkDynamicConfig(
    { document: value, circuit: undefined },
    document.dynamicConfig,
    ["dynamicConfig"],
    report,
  );
  return report.warnings.map(({ path, text: said }) => `${path}: ${said}`);
}

test("keys and their forms, at any depth", () => {
  const [document] = readPolicies(SPEC.replaceAll("\n  ", "\n"), "p").documents;
  const value = validate(policy, document?.tree ?? assert.fail(), [], new Report());
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

test("a number that means nothing at the limiter which reads it is remarked upon at its key", () => {
  const said = (dynamicConfig: string, dryRun = "") =>
    compiled(`apiVersion: fluxninja.com/v1alpha1
kind: Policy
metadata: {name: p}
spec:
  circuit:
    components:
      - variable: {constant_output: {value: 1}, config_key: load.share, out_ports: {output: {signal_name: M}}}
      - flow_control: {load_scheduler: {in_ports: {load_multiplier: {signal_name: M}}, parameters: {selectors: [{control_point: x}]}, ${dryRun}}}
dynamicConfig: ${dynamicConfig}`).warnings.map(
      ({ at, path, text }) => `${at.line} ${path}: ${text}`,
    );
  const remark = (key: string) => [
    `9 dynamicConfig${key}: load_multiplier of circuit.components[1] is -1, which counts as 0`,
  ];
  assert.deepEqual(said("{load.share: {value: -1}}"), remark('["load.share"]'));
  assert.deepEqual(said("{load: {share: {value: -1}}}"), remark(".load.share"));
  assert.deepEqual(said("{load.share: {value: 0.5}}"), []);
  const switched = "dry_run_config_key: dry";
  assert.deepEqual(said("{load.share: {value: -1}}", switched), remark('["load.share"]'));
  assert.deepEqual(said("{load.share: {value: -1}, dry: true}", switched), []);
  assert.deepEqual(said("{load.share: {value: -1}}", "dry_run: true"), []);
});

test("a constant that means nothing is remarked upon at the key that ends the dry run", () => {
  const said = (dynamicConfig: string, dryRun: string) =>
    compiled(`apiVersion: fluxninja.com/v1alpha1
kind: Policy
metadata: {name: p}
spec:
  circuit:
    components:
      - flow_control: {load_scheduler: {in_ports: {load_multiplier: {constant_signal: {value: -1}}}, parameters: {selectors: [{control_point: x}]}, ${dryRun}}}
dynamicConfig: ${dynamicConfig}`).warnings.map(({ path, text }) => `${path}: ${text}`);
  const remark = "load_multiplier of circuit.components[0] is -1, which counts as 0";
  const switched = "dry_run_config_key: dry";
  assert.deepEqual(said("{dry: false}", switched), [`dynamicConfig.dry: ${remark}`]);
  assert.deepEqual(said("{dry: false}", `dry_run: true, ${switched}`), [
    `dynamicConfig.dry: ${remark}`,
  ]);
  assert.deepEqual(said("{dry: true}", switched), []);
  assert.deepEqual(said("{}", `dry_run: true, ${switched}`), []);
});

test("a configuration that fits gets no warning", () => {
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
    /^dynamicConfig\.limits: ignored: no component reads "limits"; did you mean limit\?$/,
  ],
  [
    "{a: {d: true}}",
    /^dynamicConfig\.a\.d: ignored: no component reads "a\.d"; did you mean a\.[bc]\?$/,
  ],
  [
    "{limit: 5}",
    /^dynamicConfig\.limit: the whole dynamic configuration is refused: wanted \{value: number\}.*got the number 5$/,
  ],
  ["{limit: {value: '5'}}", /wanted \{value: number\}/],
  ["{limit: {value: 5, special_value: NaN}}", /wanted \{value: number\}/],
  ["{limit: {special_value: nan}}", /wanted \{value: number\}/],
  [
    "{a.b: yes}",
    /^dynamicConfig\["a\.b"\]: the whole dynamic configuration is refused: wanted true or false, got "yes"$/,
  ],
  ["{limit: {value: 1e999}}", /wanted \{value: number\}/],
  ["{limit: {special_value: toString}}", /wanted \{value: number\}/],
  [
    "{a: {b: true}, a.b: maybe}",
    /^dynamicConfig\["a\.b"\]: the whole dynamic configuration is refused: wanted true or false/,
  ],
  [
    "{a.b: maybe, a: {b: true}}",
    /^dynamicConfig\["a\.b"\]: the whole dynamic configuration is refused: wanted true or false/,
  ],
  ["{x.y: {z: 1}}", /^dynamicConfig\["x\.y"\]: ignored: no component reads "x\.y"/],
  ["{a: 1}", /^dynamicConfig\.a: ignored: no component reads "a"/],
  ["{vip: x}", /wanted a list of texts, got "x"$/],
  ["{'root:$6$x:1::': 1}", /^dynamicConfig: ignored: no component reads a key that is no name$/],
  ["{vip: [1]}", /wanted a list of texts, got a list$/],
];

for (const [config, said] of SAID) {
  test(`warning: ${config}`, () => {
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

function policyOf(components: string) {
  const text = `circuit: { components: [${components}] }`;
  const [document] = readPolicies(text, "p").documents;
  return validate(policy, document?.tree ?? assert.fail(), [], new Report()) ?? assert.fail();
}

test("a value of a key that is read in several forms, by one policy or by two, fits when it has one of them", () => {
  const keys = dynamicKeysOf([
    policyOf("{ variable: { constant_output: { value: 1 }, config_key: k } }"),
    policyOf("{ bool_variable: { config_key: k } }"),
  ]);
  assert.deepEqual([...(keys.get("k") ?? [])], ["constant", "boolean"]);
  for (const k of [true, { value: 1 }]) assert.deepEqual(unfitValues(keys, { k }), []);
  const [unfit, ...more] = unfitValues(keys, { k: "maybe" });
  assert.match(unfit?.wanted ?? "", /^\{value: number\} .*, or true or false$/);
  assert.deepEqual(more, []);
});

test("long keys get no suggestion, and only the first 200 keys are compared", () => {
  const nearTo = (read: readonly string[], key: string) => {
    const keys: DynamicKeys = new Map(read.map((each) => [each, new Set(["constant"] as const)]));
    return unreadKeys(keys, { [key]: 1 })[0]?.near;
  };
  const longest = "x".repeat(60);
  assert.equal(nearTo([longest], longest.slice(1)), longest);
  assert.equal(nearTo([`${longest}x`], longest), undefined);
  assert.equal(nearTo([longest], `${longest}x`), undefined);
  const others = Array.from({ length: 200 }, (_, at) => `other-${at}`);
  assert.equal(nearTo([...others.slice(1), "limit"], "limits"), "limit");
  assert.equal(nearTo([...others, "limit"], "limits"), undefined);
});
