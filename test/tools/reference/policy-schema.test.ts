// Compares the JSON Schema for editors with validation: what validation accepts conforms to the schema, and what
// breaks a rule that a schema can express does not.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Ajv } from "ajv";
import { parseAllDocuments } from "yaml";
import { Report } from "#policy/document/finding.ts";
import { readPolicies } from "#policy/document/read.ts";
import type { Field, Message, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { validate } from "#policy/validate.ts";
import { CONSTANT_PORTS, circuit, rateLimiter } from "../../policy/kit.ts";
import { policySchema } from "./policy-schema.ts";

const ajv = new Ajv({
  allErrors: true,
  strict: true,
  strictRequired: false,
  strictTypes: false,
});
const matchesSchema = ajv.compile(policySchema());

/** True when the document is valid, its wiring aside. */
function isSound(text: string, name: string): boolean {
  const { documents, findings } = readPolicies(text, name);
  const report = new Report();
  for (const { tree, path } of documents) validate(policy, tree, path, report);
  return documents.length > 0 && findings.length + report.faults === 0;
}

function validates(text: string): boolean {
  return parseAllDocuments(text).every((document) => matchesSchema(document.toJS()));
}

function cases(folder: string): (readonly [name: string, text: string])[] {
  return readdirSync(folder).flatMap((name) => {
    const file = join(folder, name, "policy.yaml");
    return existsSync(file) ? [[name, readFileSync(file, "utf8")] as const] : [];
  });
}

describe("what is accepted validates", () => {
  const all = ["test/golden/control-plane/cases", "test/cases/policy"].flatMap(cases);
  const sound = all.filter(([name, text]) => isSound(text, name));
  test("there are enough cases", () => assert.ok(sound.length > 120, String(sound.length)));
  for (const [name, text] of sound) {
    test(name, () => assert.ok(validates(text), JSON.stringify(matchesSchema.errors)));
  }
});

const HEAD = "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\n";
const GOOD: readonly (readonly [what: string, text: string])[] = [
  ["an object without a name", `${HEAD}metadata: {}\nspec: {circuit: {}}`],
  ["an object", `${HEAD}metadata: {name: p}\nspec: {circuit: {}}\ndynamicConfig: {a: true}`],
  ["a list", `${HEAD.replace("Policy", "PolicyList")}items: []`],
  ["keys without values", "circuit:\n  components:\nresources:\n"],
  ["a number as text", circuit("variable: {constant_output: {value: '1e3'}}")],
];
const BAD: readonly (readonly [what: string, text: string])[] = [
  ["an unknown key", "circuit: {component: []}"],
  ["a key in camelCase", "circuit: {evaluationInterval: 1s}"],
  ["a duration in minutes", "circuit: {evaluation_interval: 1m}"],
  ["a negative duration", "circuit: {evaluation_interval: -1s}"],
  ["a duration that must be above 0s", circuit("integrator: {evaluation_interval: 0s}")],
  ["two members of a component", circuit("{max: {}, min: {}}")],
  ["no member of a component", circuit("{}")],
  ["a component without a value", circuit("pulse_generator:")],
  ["a missing required key", circuit("decider: {}")],
  ["a wrong operator", circuit("decider: {operator: GT}")],
  ["a wrong severity", circuit("alerter: {parameters: {alert_name: a, severity: high}}")],
  ["an empty required text", circuit("alerter: {parameters: {alert_name: ''}}")],
  ["an unknown status", rateLimiterWith("denied_response_status_code: TooMany")],
  [
    "a signal and a constant",
    circuit("inverter: {in_ports: {input: {signal_name: a, constant_signal: {}}}}"),
  ],
  ["two kinds of buckets", meter("linear_buckets: {width: 1, count: 1}, static_buckets: {}")],
  ["a count of 0", meter("linear_buckets: {width: 1, count: 0}")],
  [
    "a percentage above 100",
    circuit(
      "auto_scale: {auto_scaler: {scale_in_controllers: [{controller: {periodic: {period: 1s, scale_in_percentage: 101}}, alerter: {alert_name: a}}]}}",
    ),
  ],
  ["a slope of 0", circuit("gradient_controller: {parameters: {slope: 0}}")],
  ["a name with a slash", "resources: {infra_meters: {a/b: {}}}"],
  [
    "a label with a dash",
    "resources: {flow_control: {classifiers: [{selectors: [{control_point: x}], rules: {a-b: {extractor: {from: request.http.host}}}}]}}",
  ],
  ["no selectors", "resources: {flow_control: {flux_meters: {m: {selectors: []}}}}"],
  ["a text for a list", "circuit: {components: none}"],
  ["an object of another kind", `${HEAD.replace("Policy", "Pod")}metadata: {name: p}\nspec: {}`],
];

function rateLimiterWith(request: string): string {
  const rest = `parameters: {interval: 1s}, request_parameters: {${request}}`;
  return circuit(rateLimiter(CONSTANT_PORTS, rest));
}

function meter(buckets: string): string {
  return `resources: {flow_control: {flux_meters: {m: {selectors: [{control_point: x}], ${buckets}}}}}`;
}

for (const [what, text] of GOOD) {
  test(`good: ${what}`, () => {
    assert.ok(validates(text), JSON.stringify(matchesSchema.errors));
    assert.deepEqual(readPolicies(text, "p").findings, []);
  });
}

for (const [what, text] of BAD) {
  test(`bad: ${what}`, () => {
    assert.ok(!validates(text));
    assert.ok(!isSound(text, "p"), "the judge takes it");
  });
}

test("every field of the language has a description", () => {
  const seen = new Set<Message>();
  const visit = (type: Type): void => {
    if (type.kind === "list" || type.kind === "map") visit(type.of.type);
    if (type.kind === "message") visitMessage(type.of());
  };
  const visitMessage = (message: Message): void => {
    if (seen.has(message)) return;
    seen.add(message);
    for (const [name, field] of Object.entries<Field>(message.fields)) {
      assert.match(field.about ?? "", /^\S.*[.]$/, `${message.name}.${name}`);
      visit(field.type);
    }
  };
  visitMessage(policy);
  assert.ok(seen.size > 100, String(seen.size));
});
