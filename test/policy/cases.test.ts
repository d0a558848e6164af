// Whole documents with what they compile to. `RENEW=1 node --test test/policy/cases.test.ts` writes the
// wanted results anew; read the difference before it is committed.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import type { DescMessage, JsonObject, JsonValue } from "@bufbuild/protobuf";
import { fromJson, toBinary } from "@bufbuild/protobuf";
import type { FluxMeterRule, Rule } from "#flow/rules.ts";
import { readBatch, storedRules } from "#store/rules.ts";
import { ClassifierWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/classifier_pb.ts";
import { FluxMeterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/flux_meter_pb.ts";
import { RateLimiterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/rate_limiter_pb.ts";
import { SamplerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/sampler_pb.ts";
import { compiled } from "./kit.ts";

const ROOT = "test/cases/policy";
const cases = readdirSync(ROOT);

test("there are cases", () => assert.ok(cases.length > 50));

for (const name of cases) {
  const folder = join(ROOT, name);
  test(`compiles: ${name}`, () => {
    const policy = compiled(readFileSync(join(folder, "policy.yaml"), "utf8"), name);
    const { rules, decisions, observing, warnings } = policy;
    const got = JSON.stringify(
      {
        rules,
        decisions,
        observing: observing.map(({ path }) => path),
        warnings: warnings.map(({ path, text }) => `${path}: ${text}`),
      },
      (_, value: unknown) => (value === policy.hash ? "HASH" : speakable(value)),
      1,
    );
    const file = join(folder, "rules.json");
    if (process.env["RENEW"] === "1") writeFileSync(file, `${got}\n`);
    assert.equal(`${got}\n`, readFileSync(file, "utf8"));
  });
}

/** JSON has no infinite numbers. */
function speakable(value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

const WRAPPERS: Readonly<Record<string, DescMessage>> = {
  rate_limiter: RateLimiterWrapperSchema,
  sampler: SamplerWrapperSchema,
  classifiers: ClassifierWrapperSchema,
  flux_meter: FluxMeterWrapperSchema,
};

const recorded = cases.filter((name) => existsSync(join(ROOT, name, "compiled.json")));

test("some cases were recorded", () => assert.ok(recorded.length >= 5));

/** The group that selectors without one fell to where the recording was made (D-29). */
const CLOUD = "aperture-cloud";

/**
 * What the recorded controller wrote, read as our agents read it, is what our documents compile to.
 * Numbers of lazy synchronisation count only where it is on, and a meter without buckets has ours (D-22).
 */
for (const name of recorded) {
  test(`agrees with what was recorded: ${name}`, () => {
    const policy = compiled(readFileSync(join(ROOT, name, "policy.yaml"), "utf8"), name);
    const own = new Map<string, Rule>();
    for (const [key, value] of storedRules(policy.rules, [])) own.set(key, ruleOf(key, value));
    const theirs = new Map<string, Rule>();
    const text = readFileSync(join(ROOT, name, "compiled.json"), "utf8");
    const wrappers = JSON.parse(
      text.replaceAll("HASH", policy.hash).replaceAll(CLOUD, "default"),
    ) as JsonObject;
    for (const [key, json] of Object.entries(wrappers)) {
      const [, , kind = ""] = key.split("/");
      if (kind !== "policies") theirs.set(key, ruleOf(key, encode(kind, json)));
    }
    assert.notEqual(own.size, 0);
    assert.deepEqual([...own.keys()].sort(), [...theirs.keys()].sort());
    for (const [key, rule] of own) {
      const other = theirs.get(key);
      assert.deepEqual(
        hasNoBuckets(other) ? { ...rule, buckets: other.buckets } : rule,
        other,
        key,
      );
    }
  });
}

function hasNoBuckets(rule: Rule | undefined): rule is FluxMeterRule {
  return (
    rule?.kind === "flux_meter" &&
    rule.buckets.kind === "static" &&
    rule.buckets.bounds.length === 0
  );
}

function encode(kind: string, json: JsonValue): Uint8Array {
  const schema = WRAPPERS[kind];
  assert.ok(schema, `${kind} has a wrapper here`);
  return toBinary(schema, fromJson(schema, json));
}

function ruleOf(key: string, value: Uint8Array): Rule {
  const group = /^agent_group-(.*?)-(?:policy|flux_meter)-/.exec(basename(key))?.[1] ?? "";
  const puts = [{ key, value, revision: 1 }];
  const { rules, faults } = readBatch(group, { revision: 1, puts, deletes: [] });
  const [rule] = rules.values();
  assert.ok(rule, `${key}: ${[...faults.values()].join()}`);
  return rule;
}
