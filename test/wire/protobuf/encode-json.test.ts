// Encodes messages given as JSON with proto names by reflection, and compares with @bufbuild/protobuf.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { Fault } from "#base/fault.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { decode, encodeJson } from "#wire/protobuf/messages.ts";

const InfraMeterWrapperSchema = schemaOf("aperture.policy.sync.v1.InfraMeterWrapper");
const PodScalerWrapperSchema = schemaOf("aperture.policy.sync.v1.PodScalerWrapper");
const RateLimiterWrapperSchema = schemaOf("aperture.policy.sync.v1.RateLimiterWrapper");

const RATE = "aperture.policy.sync.v1.RateLimiterWrapper";
const INFRA = "aperture.policy.sync.v1.InfraMeterWrapper";
const SCALER = "aperture.policy.sync.v1.PodScalerWrapper";

test("enums, durations, oneofs with zeros, lists, maps, null for what is unset", () => {
  const json: JsonValue = {
    common_attributes: { policy_name: "p", policy_hash: "h", component_id: "root.0" },
    rate_limiter: {
      in_ports: {
        bucket_capacity: { constant_signal: { value: 0 } },
        fill_amount: { constant_signal: { special_value: "+Inf" } },
        pass_through: null,
      },
      parameters: {
        interval: "1.000000001s",
        max_idle_time: "0s",
        lazy_sync: { enabled: true, num_sync: 5 },
      },
      selectors: [
        { control_point: "x", label_matcher: { match_labels: { "http.method": "GET" } } },
      ],
      request_parameters: { denied_response_status_code: "PaymentRequired" },
    },
  };
  const wanted = toBinary(RateLimiterWrapperSchema, fromJson(RateLimiterWrapperSchema, json));
  assert.deepEqual(decode(RATE, encodeJson(RATE, json)), decode(RATE, wanted));
});

test("free-form objects", () => {
  const json: JsonValue = {
    infra_meter: {
      receivers: {
        "r/1": { x: [1, "two", true, null, { deep: { n: -0.5 } }], empty: {}, none: [] },
      },
    },
  };
  const wanted = toBinary(InfraMeterWrapperSchema, fromJson(InfraMeterWrapperSchema, json));
  assert.deepEqual(decode(INFRA, encodeJson(INFRA, json)), decode(INFRA, wanted));
});

test("doubles that JSON cannot write as numbers", () => {
  const ports = (value: JsonValue): JsonValue => ({
    pod_scaler: { in_ports: { replicas: { constant_signal: { value } } } },
  });
  for (const value of ["NaN", "Infinity", "-Infinity", 1e308, 0]) {
    const json = ports(value);
    const wanted = toBinary(PodScalerWrapperSchema, fromJson(PodScalerWrapperSchema, json));
    assert.deepEqual(decode(SCALER, encodeJson(SCALER, json)), decode(SCALER, wanted));
  }
});

describe("JSON that does not fit the message throws", () => {
  const MISFITS: readonly (readonly [json: unknown, said: RegExp])[] = [
    [{ rate_limiterr: {} }, /rate_limiterr: wanted a field/],
    [{ rate_limiter: [] }, /rate_limiter: wanted an object/],
    [{ rate_limiter: { selectors: {} } }, /selectors: wanted a list/],
    [{ rate_limiter: { parameters: { interval: 5 } } }, /interval: wanted a duration/],
    [
      { rate_limiter: { request_parameters: { denied_response_status_code: "Nope" } } },
      /wanted a name of StatusCode/,
    ],
  ];
  for (const [json, said] of MISFITS) {
    test(JSON.stringify(json), () => {
      assert.throws(
        () => encodeJson(RATE, json),
        (thrown) =>
          thrown instanceof Fault && thrown.code === "INTERNAL" && said.test(thrown.message),
      );
    });
  }
});
