// Validated documents as protojson.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { Report } from "#policy/document/finding.ts";
import { readPolicies } from "#policy/document/read.ts";
import { type Policy, policy } from "#policy/language/policy.ts";
import { canonicalJson, compactPolicy, durationText, fullPolicy } from "#policy/message.ts";
import { validate } from "#policy/validate.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { decode, encodeJson } from "#wire/protobuf/messages.ts";
import { circuit, compiled } from "./kit.ts";

const PolicySchema = schemaOf("aperture.policy.language.v1.Policy");

function documentOf(text: string): Policy | undefined {
  const [document] = readPolicies(text, "p").documents;
  return document && validate(policy, document.tree, document.path, new Report());
}

describe("every field", () => {
  const GIVEN = `circuit:
  components:
    - variable: {constant_output: {special_value: NaN}, out_ports: {output: {}}}
    - integrator: {in_ports: {input: {constant_signal: {value: 0.1}}}}
    - auto_scale: {auto_scaler: {scaling_parameters: {scale_out_alerter: {alert_name: a}, scale_in_alerter: {alert_name: b}}, scaling_backend: {kubernetes_replicas: {kubernetes_object_selector: {namespace: n, api_version: v1, kind: K, name: x}}}}}`;
  const full = JSON.parse(JSON.stringify(fullPolicy(documentOf(GIVEN) ?? assert.fail())));
  const [variable, integrator, scale] = full.circuit.components;

  test("null for absent messages, only the present arm of a oneof", () => {
    assert.equal(full.resources, null);
    assert.deepEqual(variable.variable, {
      out_ports: { output: {} },
      constant_output: { special_value: "NaN" },
      config_key: "",
    });
    assert.deepEqual(integrator.integrator, {
      in_ports: {
        input: { constant_signal: { value: 0.1 } },
        reset: null,
        max: null,
        min: null,
      },
      out_ports: null,
      initial_value: 0,
      evaluation_interval: null,
    });
  });

  test("writes 64-bit integers as text, durations in seconds, and empty lists", () => {
    const { scaling_backend, scaling_parameters, scale_in_controllers } =
      scale.auto_scale.auto_scaler;
    assert.equal(scaling_backend.kubernetes_replicas.max_replicas, "9223372036854775807");
    assert.equal(scaling_parameters.scale_in_cooldown, "120s");
    assert.deepEqual(scale_in_controllers, []);
  });

  test("the form in which another controller stores and shows documents", () => {
    const { steps } = JSON.parse(
      readFileSync("test/golden/control-api/policy-lifecycle.json", "utf8"),
    );
    const given = steps[0].request.body.policy_string;
    const stored = steps.find(({ etcd }: { etcd?: string }) => etcd === "get").value;
    const own = JSON.stringify(fullPolicy(documentOf(given) ?? assert.fail()));
    assert.deepEqual(JSON.parse(own), stored);
  });
});

test("-0 equals 0, also in the policy's hash", () => {
  assert.equal(canonicalJson({ a: -0 }), canonicalJson({ a: 0 }));
  const hash = (value: string) =>
    compiled(circuit(`variable: {constant_output: {value: ${value}}}`)).hash;
  assert.equal(hash("-0"), hash("0"));
  assert.equal(hash("-0.0"), hash("0"));
  assert.notEqual(hash("-1"), hash("1"));
});

test("durations have 0, 3, 6 or 9 decimals", () => {
  const wanted = {
    0: "0s",
    1: "0.001s",
    10: "0.010s",
    1000: "1s",
    1500: "1.500s",
    0.25: "0.000250s",
  };
  for (const [ms, text] of Object.entries(wanted)) assert.equal(durationText(Number(ms)), text);
  assert.equal(durationText(1e-6), "0.000000001s");
  assert.equal(durationText(315_576_000_000_000), "315576000000s");
});

describe("both forms are documents again, and messages", () => {
  const root = "test/golden/control-plane/cases";
  const documents = readdirSync(root).flatMap((name) => {
    const document = documentOf(readFileSync(join(root, name, "policy.yaml"), "utf8"));
    return document === undefined ? [] : [[name, document] as const];
  });
  test("there are enough cases", () => assert.ok(documents.length > 80));
  for (const [name, document] of documents) {
    test(name, () => {
      for (const json of [compactPolicy(document), fullPolicy(document)]) {
        const again = documentOf(JSON.stringify(json));
        assert.equal(canonicalJson(again), canonicalJson(document));
        const wanted = toBinary(PolicySchema, fromJson(PolicySchema, json as JsonValue));
        const got = encodeJson("aperture.policy.language.v1.Policy", json);
        assert.deepEqual(
          decode("aperture.policy.language.v1.Policy", got),
          decode("aperture.policy.language.v1.Policy", wanted),
        );
      }
    });
  }
});
