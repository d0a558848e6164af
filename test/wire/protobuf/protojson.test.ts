// Canonical JSON against examples written by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { toJson } from "#wire/protobuf/protojson.ts";

const CacheEntrySchema = schemaOf("aperture.flowcontrol.check.v1.CacheEntry");
const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const LimiterDecisionSchema = schemaOf("aperture.flowcontrol.check.v1.LimiterDecision");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const ConstantSignalSchema = schemaOf("aperture.policy.language.v1.ConstantSignal");
const TickInfoSchema = schemaOf("aperture.policy.sync.v1.TickInfo");

const UNSET_DECISION = {
  policy_name: "",
  policy_hash: "",
  component_id: "",
  dropped: false,
  reason: "LIMITER_REASON_UNSPECIFIED",
  denied_response_status_code: "Empty",
  wait_time: null,
};

test("unset fields are written with their defaults, unset messages as null, unset arms of a oneof not at all", () => {
  assert.deepEqual(toJson(LimiterDecisionSchema, create(LimiterDecisionSchema)), UNSET_DECISION);
  assert.deepEqual(toJson(CheckHTTPResponseSchema, create(CheckHTTPResponseSchema)), {
    status: null,
    dynamic_metadata: null,
    check_response: null,
  });
});

test("the arm that is set is written with its own nulls, also in lists and maps", () => {
  const message = create(CheckResponseSchema, {
    limiterDecisions: [
      { details: { case: "rateLimiterInfo", value: { label: "user:1" } }, failureMode: "local" },
      { details: { case: "samplerInfo", value: {} } },
    ],
    cacheLookupResponse: { globalCacheResponses: { a: { value: new Uint8Array([255, 254]) } } },
  });
  assert.deepEqual(toJson(CheckResponseSchema, message), {
    start: null,
    end: null,
    services: [],
    control_point: "",
    flow_label_keys: [],
    telemetry_flow_labels: {},
    decision_type: "DECISION_TYPE_ACCEPTED",
    reject_reason: "REJECT_REASON_NONE",
    classifier_infos: [],
    flux_meter_infos: [],
    limiter_decisions: [
      {
        ...UNSET_DECISION,
        rate_limiter_info: { label: "user:1", tokens_info: null },
        failure_mode: "local",
      },
      { ...UNSET_DECISION, sampler_info: { label: "" } },
    ],
    wait_time: null,
    denied_response_status_code: "Empty",
    cache_lookup_response: {
      result_cache_response: null,
      global_cache_responses: {
        a: { value: "//4=", lookup_status: "HIT", operation_status: "SUCCESS", error: "" },
      },
    },
    expect_end: false,
  });
});

test("durations and timestamps have 0, 3, 6 or 9 digits", () => {
  const ttl = (seconds: bigint, nanos: number): unknown =>
    toJson(CacheEntrySchema, create(CacheEntrySchema, { ttl: { seconds, nanos } }));
  const entry = (text: string): unknown => ({ key: "", value: "", ttl: text });
  assert.deepEqual(ttl(3n, 0), entry("3s"));
  assert.deepEqual(ttl(3n, 500_000_000), entry("3.500s"));
  assert.deepEqual(ttl(0n, 1_000), entry("0.000001s"));
  assert.deepEqual(ttl(0n, 1), entry("0.000000001s"));
  assert.deepEqual(ttl(-1n, -10_000_000), entry("-1.010s"));
  assert.deepEqual(ttl(0n, -10_000_000), entry("-0.010s"));
  const at = (nanos: number): unknown =>
    toJson(
      TickInfoSchema,
      create(TickInfoSchema, {
        timestamp: { seconds: 1_700_000_000n, nanos },
        tick: 9_007_199_254_740_993n,
      }),
    );
  const tick = (text: string): unknown => ({
    timestamp: text,
    next_timestamp: null,
    tick: "9007199254740993",
    interval: null,
  });
  assert.deepEqual(at(0), tick("2023-11-14T22:13:20Z"));
  assert.deepEqual(at(120_000_000), tick("2023-11-14T22:13:20.120Z"));
  assert.deepEqual(at(120_000), tick("2023-11-14T22:13:20.000120Z"));
  assert.deepEqual(at(12), tick("2023-11-14T22:13:20.000000012Z"));
});

test("NaN and infinities are written as strings", () => {
  const value = (number: number): unknown =>
    toJson(
      ConstantSignalSchema,
      create(ConstantSignalSchema, { const: { case: "value", value: number } }),
    );
  assert.deepEqual(value(Number.NaN), { value: "NaN" });
  assert.deepEqual(value(Number.NEGATIVE_INFINITY), { value: "-Infinity" });
  assert.deepEqual(value(0), { value: 0 });
});
