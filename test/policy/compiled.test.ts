// What a controller leaves in the store for every recorded policy, against what another one left: same keys,
// same messages. Where ours differs by decision, the difference stands here with its reason.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type DescMessage, fromBinary, type JsonObject, toJson } from "@bufbuild/protobuf";
import { compileSet } from "#policy/set.ts";
import { configEntries, policyEntry } from "#store/rules.ts";
import { ClassifierWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/classifier_pb.ts";
import { ConcurrencyLimiterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/concurrency_limiter_pb.ts";
import { ConcurrencySchedulerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/concurrency_scheduler_pb.ts";
import { FluxMeterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/flux_meter_pb.ts";
import { InfraMeterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/infra_meter_pb.ts";
import { LoadSchedulerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/load_scheduler_pb.ts";
import { PodScalerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/pod_scaler_pb.ts";
import { PolicyWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/policy_pb.ts";
import { QuotaSchedulerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/quota_scheduler_pb.ts";
import { RateLimiterWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/rate_limiter_pb.ts";
import { SamplerWrapperSchema } from "../../src/wire/gen/aperture/policy/sync/v1/sampler_pb.ts";
import { digest } from "./kit.ts";

const ROOT = "test/golden/control-plane/cases";

/** Accepted there, refused here: accepting would only move the failure to the agents. */
const REFUSED: Readonly<Record<string, string>> = {
  "accepted-bad-label-regex": "label patterns are judged when they are read (D-40)",
  "accepted-empty-in-signal-name": "an empty signal name names no signal (D-10)",
  "accepted-max-below-min-custom-bucket-range": "no bucket lies in an empty range (D-40)",
  "accepted-slash-in-nested-names": "names become parts of keys, where `/` separates (D-23)",
  "document-unknown-keys": "unknown keys are refused (D-30)",
};

/** What ours says and the other one forgot to say. */
const FORWARDED: Readonly<Record<string, readonly string[]>> = {
  // A load ramp's pass-through values go to its sampler (D-6).
  "load-ramp-backward-reset": ["pass_through_label_values", "pass_through_label_values_config_key"],
};

/** Selectors that name no group mean the one in which agents are that name none (D-29). */
const GROUP = /aperture-cloud/g;

/** Ours says the status that a refused caller gets; the other one leaves it to the agent (D-31). */
const DEFAULT_STATUS = "denied_response_status_code";

const WRAPPERS: Readonly<Record<string, DescMessage>> = {
  classifiers: ClassifierWrapperSchema,
  concurrency_limiter: ConcurrencyLimiterWrapperSchema,
  concurrency_scheduler: ConcurrencySchedulerWrapperSchema,
  flux_meter: FluxMeterWrapperSchema,
  infra_meter: InfraMeterWrapperSchema,
  load_scheduler: LoadSchedulerWrapperSchema,
  pod_scaler: PodScalerWrapperSchema,
  policies: PolicyWrapperSchema,
  quota_scheduler: QuotaSchedulerWrapperSchema,
  rate_limiter: RateLimiterWrapperSchema,
  sampler: SamplerWrapperSchema,
};

/** Zero values are left out, as they are in the recordings. */
function decoded(key: string, value: Uint8Array, hash: string): unknown {
  const schema = WRAPPERS[key.split("/")[2] ?? ""];
  assert.ok(schema, key);
  const json = toJson(schema, fromBinary(schema, value), { useProtoFieldName: true });
  return JSON.parse(JSON.stringify(json).replaceAll(hash, "HASH"));
}

/** Without members of these names that the recording does not have at that place. */
function without(names: readonly string[], own: unknown, recorded: unknown): unknown {
  if (Array.isArray(own)) {
    const items = Array.isArray(recorded) ? recorded : [];
    return own.map((item, index) => without(names, item, items[index]));
  }
  if (typeof own !== "object" || own === null) return own;
  const beside = (typeof recorded === "object" ? recorded : null) as JsonObject | null;
  return Object.fromEntries(
    Object.entries(own)
      .filter(([key]) => !names.includes(key) || beside?.[key] !== undefined)
      .map(([key, value]) => [key, without(names, value, beside?.[key])]),
  );
}

const cases = readdirSync(ROOT);

test("there are recordings", () => assert.ok(cases.length >= 80, String(cases.length)));

for (const name of cases) {
  const folder = join(ROOT, name);
  const text = readFileSync(join(folder, "policy.yaml"), "utf8");
  const set = compileSet([{ source: name, stem: name, text }], { digest, queries: "prometheus" });
  const [policy] = set.policies;
  if (name in REFUSED) {
    test(`refused: ${name}`, () => assert.ok(set.findings.length > 0));
    continue;
  }
  if (!existsSync(join(folder, "compiled.json"))) continue;
  test(`stores ${name}`, () => {
    assert.deepEqual(set.findings, []);
    assert.ok(policy);
    const json = readFileSync(join(folder, "compiled.json"), "utf8").replace(GROUP, "default");
    const recorded: Record<string, unknown> = JSON.parse(json);
    const own = new Map([...configEntries(policy.of), policyEntry(policy.of, "ETCD")]);
    assert.deepEqual([...own.keys()].sort(), Object.keys(recorded).sort());
    for (const [key, value] of own) {
      const names = [...(FORWARDED[name] ?? []), DEFAULT_STATUS];
      const got = without(names, decoded(key, value, policy.of.hash), recorded[key]);
      assert.deepEqual(got, recorded[key], key);
    }
  });
}
