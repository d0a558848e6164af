// Canonical JSON against examples written by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, createRegistry, toBinary } from "@bufbuild/protobuf";
import { anyPack, DurationSchema } from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { binaryToJson, jsonToBinary, readJson, toJson } from "#wire/protobuf/protojson.ts";

const CacheEntrySchema = schemaOf("aperture.flowcontrol.check.v1.CacheEntry");
const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const LimiterDecisionSchema = schemaOf("aperture.flowcontrol.check.v1.LimiterDecision");
const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const SocketAddressSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.SocketAddress");
const PostDynamicConfigRequestSchema = schemaOf(
  "aperture.policy.language.v1.PostDynamicConfigRequest",
);
const ConstantSignalSchema = schemaOf("aperture.policy.language.v1.ConstantSignal");
const TickInfoSchema = schemaOf("aperture.policy.sync.v1.TickInfo");
const GroupStatusSchema = schemaOf("aperture.status.v1.GroupStatus");
const StatusSchema = schemaOf("aperture.status.v1.Status");

const UNSET_DECISION = {
  policy_name: "",
  policy_hash: "",
  component_id: "",
  dropped: false,
  reason: "LIMITER_REASON_UNSPECIFIED",
  denied_response_status_code: "Empty",
  wait_time: null,
};

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (thrown) {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    return thrown.message;
  }
  return assert.fail("want a refusal");
}

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

test("the message inside an Any is expanded", () => {
  const registry = createRegistry(StatusSchema, DurationSchema);
  const inner = create(StatusSchema, { error: { message: "down" } });
  const duration = create(DurationSchema, { seconds: 5n });
  const message = create(GroupStatusSchema, {
    groups: {
      a: { status: { message: anyPack(StatusSchema, inner) } },
      b: { status: { message: anyPack(DurationSchema, duration) } },
    },
  });
  const status = (any: unknown): unknown => ({
    status: { message: any, timestamp: null, error: null },
    groups: {},
  });
  assert.deepEqual(toJson(GroupStatusSchema, message, { registry }), {
    status: null,
    groups: {
      a: status({
        "@type": "type.googleapis.com/aperture.status.v1.Status",
        message: null,
        error: { message: "down" },
        timestamp: null,
      }),
      b: status({ "@type": "type.googleapis.com/google.protobuf.Duration", value: "5s" }),
    },
  });
});

test("reads either spelling, numbers as text, enums by name or number, and skips unknown fields", () => {
  const message = readJson(
    CheckHTTPRequestSchema,
    `{"control_point":"in","rampMode":true,"nobody":{"knows":["me",1e400]},
      "source":{"protocol":"UDP","port":"80"},"destination":{"protocol":1,"port":8080},
      "request":{"size":"9007199254740993","headers":{"__proto__":"x"}}}`,
  );
  assert.equal(message.controlPoint, "in");
  assert.equal(message.rampMode, true);
  assert.deepEqual([message.source?.protocol, message.source?.port], [1, 80]);
  assert.deepEqual([message.destination?.protocol, message.destination?.port], [1, 8080]);
  assert.equal(message.request?.size, 9_007_199_254_740_993n);
  assert.deepEqual(Object.entries(message.request?.headers ?? {}), [["__proto__", "x"]]);
  const exact = readJson(TickInfoSchema, '{"tick":9007199254740993,"timestamp":null}');
  assert.equal(exact.tick, 9_007_199_254_740_993n);
  const kept = readJson(
    PostDynamicConfigRequestSchema,
    '{"dynamicConfig":{"a":18446744073709551616}}',
  );
  assert.deepEqual(kept.dynamicConfig, { a: 2 ** 64 });
});

test("output can be read back", () => {
  const bytes = toBinary(
    CheckResponseSchema,
    create(CheckResponseSchema, {
      controlPoint: "x",
      waitTime: { seconds: 1n, nanos: 1 },
      limiterDecisions: [{ details: { case: "rateLimiterInfo", value: { label: "l" } } }],
    }),
  );
  assert.deepEqual(
    jsonToBinary(CheckResponseSchema, binaryToJson(CheckResponseSchema, bytes)),
    bytes,
  );
});

const secret = "hunter2";
const refusals: readonly (readonly [name: string, body: string | Uint8Array, wanted: RegExp])[] = [
  [
    "a key twice",
    '{"control_point":"a","control_point":"b"}',
    /^wanted JSON without duplicate keys/,
  ],
  [
    "a key twice, once escaped",
    '{"request":{"headers":{"a":"1","\\u0061":"2"}}}',
    /duplicate keys/,
  ],
  ["a key twice where nobody looks", '{"x":{"y":1,"y":2}}', /duplicate keys/],
  ["both spellings", '{"control_point":"a","controlPoint":"b"}', /control_point: want/],
  ["no JSON", `{"a": ${secret}`, /^wanted JSON/],
  ["two values", '{},"a":{}', /^wanted JSON/],
  ["a list", "[]", /^body: wanted an object, got a list$/],
  [
    "a number as string field",
    '{"control_point":5}',
    /^control_point: wanted a string, got number$/,
  ],
  [
    "an unknown enum name",
    '{"source":{"protocol":"udp"}}',
    /^source\.protocol: wanted a name or number of/,
  ],
  ["text as boolean", '{"ramp_mode":"true"}', /^ramp_mode: wanted a boolean, got string$/],
  ["a negative port", '{"source":{"port":-1}}', /SocketAddress\.port: want/],
  ["a port that is no number", `{"source":{"port":"${secret}"}}`, /SocketAddress\.port: want/],
  ["a lone surrogate", '{"control_point":"\\ud800"}', /control_point: want/],
  [
    "a null in a map",
    '{"request":{"headers":{"a":null}}}',
    /^request\.headers\{\}: wanted a string, got null$/,
  ],
  ["bytes that are no UTF-8", new Uint8Array([123, 34, 255, 34, 125]), /UTF-8/],
  ["deep nesting", `{"x":${"[".repeat(64)}${"]".repeat(64)}}`, /nested at most 64/],
];
for (const [name, body, wanted] of refusals)
  test(`refuses ${name}`, () => {
    const message = refusal(() => readJson(CheckHTTPRequestSchema, body));
    assert.match(message, wanted);
    assert.ok(!message.includes(secret) && !message.includes("udp"));
  });

test("brackets inside strings do not count as nesting", () => {
  const body = JSON.stringify({ address: '\\"['.repeat(100) });
  assert.equal(readJson(SocketAddressSchema, body).address.length, 300);
});
