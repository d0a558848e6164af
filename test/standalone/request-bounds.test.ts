// Each bound on requests is a configuration key: at the bound a request passes, beyond it a check is refused.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { curl } from "../../deploy/tools/install.ts";
import { grpcClient, type TestClient } from "../kit/clients/grpc.ts";
import { child } from "../kit/servers/child.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const FlowCheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const FlowCheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const CHECK_HTTP = "/v1/flowcontrol/checkhttp";
const FLOW_END = "/v1/flowcontrol/flowend";
const GRPC_CHECK = "/envoy.service.auth.v3.Authorization/Check";
const GRPC_FLOW_CHECK = "/aperture.flowcontrol.check.v1.FlowControlService/Check";
const OK = 0;
const RESOURCE_EXHAUSTED = 8;

const named = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "1"]));
const described = (request: object) => ({ control_point: "ingress", request });

const serve = async (t: TestContext, key: string, value: number, env = {}) =>
  (await standalone(t, { policies: {}, env: { [`SVC_AGENT_SERVER_${key}`]: `${value}`, ...env } }))
    .address;

/** The status of the decision about a described request: 200, or the one with which it is refused. */
async function decided(address: string, request: object): Promise<number> {
  const { status, body } = await call(address, "POST", CHECK_HTTP, described(request));
  assert.equal(status, 200, body);
  const { denied_response: denied } = JSON.parse(body);
  return denied?.status ?? 200;
}

async function decidedByGrpc(client: TestClient, headers: Readonly<Record<string, string>>) {
  const request = { attributes: { request: { http: { method: "GET", headers } } } };
  const message = toBinary(CheckRequestSchema, create(CheckRequestSchema, request));
  const metadata = { "control-point": "ingress" };
  const reply = await client.unary(GRPC_CHECK, message, { metadata });
  assert.equal(reply.code, OK, reply.details);
  const { httpResponse } = fromBinary(CheckResponseSchema, reply.message ?? new Uint8Array());
  return httpResponse.case === "deniedResponse" ? httpResponse.value.status?.code : 200;
}

test("server.http.max_body_bytes: 413, as the refusal of a decision where the body describes a request", async (t) => {
  const address = await serve(t, "HTTP_MAX_BODY_BYTES", 2_000);
  const body = (length: number) => {
    const bare = JSON.stringify({ control_point: "ingress", more: "" }).length;
    return { control_point: "ingress", more: "x".repeat(length - bare) };
  };
  assert.equal((await call(address, "POST", FLOW_END, body(2_000))).status, 200);
  assert.equal((await call(address, "POST", FLOW_END, body(2_001))).status, 413);
  assert.equal(await decided(address, { path: "x".repeat(1_900) }), 200);
  assert.equal(await decided(address, { path: "x".repeat(2_000) }), 413);
});

test("server.http.max_headers: 431 for requests over HTTP/1.1 and HTTP/2", async (t) => {
  const address = await serve(t, "HTTP_MAX_HEADERS", 20);
  for (const version of ["--http1.1", "--http2-prior-knowledge"]) {
    for (const data of [[], ["--data", JSON.stringify(described({}))]]) {
      const path = data.length === 0 ? "/healthz" : CHECK_HTTP;
      for (const [count, wanted] of [
        [8, "200"],
        [20, "431"],
        [300, "431"],
      ] as const) {
        const headers = Object.keys(named(count)).flatMap((name) => ["--header", `${name}: 1`]);
        const asked = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", version];
        const run = child(t, curl(), [...asked, ...headers, ...data, `http://${address}${path}`]);
        assert.equal(await run.ended, 0, run.err());
        // Gateways forward the headers of their clients, and let requests pass on errors.
        const decided = data.length > 0 ? "200" : wanted;
        assert.equal(run.out(), decided, `${version} ${path} ${count}`);
      }
    }
  }
});

test("server.http.max_headers: RESOURCE_EXHAUSTED over gRPC", async (t) => {
  const client = grpcClient(t, await serve(t, "HTTP_MAX_HEADERS", 20));
  const check = async (count: number) =>
    (
      await client.unary("/grpc.health.v1.Health/Check", Buffer.alloc(0), {
        metadata: named(count),
      })
    ).code;
  assert.equal(await check(5), OK);
  assert.equal(await check(20), RESOURCE_EXHAUSTED);
});

test("server.http.max_headers: a check that describes more is a refusal with 431 on every route", async (t) => {
  const address = await serve(t, "HTTP_MAX_HEADERS", 20);
  const client = grpcClient(t, address);
  for (const [count, wanted] of [
    [20, 200],
    [21, 431],
    [100, 431],
  ] as const) {
    assert.equal(await decided(address, { headers: named(count) }), wanted);
    // A list of values is left to the general parser.
    assert.equal(await decided(address, { headers: { ...named(count - 1), y: ["1"] } }), wanted);
    assert.equal(await decidedByGrpc(client, named(count)), wanted);
  }
});

test("server.http.max_labels: a check with more is a refusal with 413", async (t) => {
  const address = await serve(t, "HTTP_MAX_LABELS", 20);
  const client = grpcClient(t, address);
  for (const [count, wanted] of [
    [20, "Empty"],
    [21, "PayloadTooLarge"],
    [500, "PayloadTooLarge"],
  ] as const) {
    const flow = { control_point: "ingress", labels: named(count) };
    const { status, body } = await call(address, "POST", "/v1/flowcontrol/check", flow);
    assert.equal(status, 200, body);
    assert.equal(JSON.parse(body).denied_response_status_code, wanted);
    const message = create(FlowCheckRequestSchema, {
      controlPoint: "ingress",
      labels: named(count),
    });
    const reply = await client.unary(GRPC_FLOW_CHECK, toBinary(FlowCheckRequestSchema, message));
    assert.equal(reply.code, OK, reply.details);
    const read = fromBinary(FlowCheckResponseSchema, reply.message ?? new Uint8Array());
    assert.equal(read.deniedResponseStatusCode, count > 20 ? 413 : 0);
    assert.equal(read.flowLabelKeys.length >= 20, true);
    assert.equal(read.flowLabelKeys.length <= 22, true, "the rest is not kept");
  }
});

test("server.http.max_json_depth: 400", async (t) => {
  const address = await serve(t, "HTTP_MAX_JSON_DEPTH", 8);
  const nested = (depth: number) => {
    let value: object = {};
    for (let at = 2; at < depth; at++) value = { value };
    return { control_point: "ingress", unknown: value };
  };
  for (const path of [CHECK_HTTP, "/v1/flowcontrol/check", FLOW_END]) {
    assert.equal((await call(address, "POST", path, nested(8))).status, 200, path);
    assert.equal((await call(address, "POST", path, nested(9))).status, 400, path);
  }
});

test("server.http.max_baggage_bytes: a longer header gives no labels", async (t) => {
  const address = await serve(t, "HTTP_MAX_BAGGAGE_BYTES", 20);
  const client = grpcClient(t, address);
  const labels = async (baggage: string) => {
    const { body } = await call(address, "POST", CHECK_HTTP, described({ headers: { baggage } }));
    const keys: readonly string[] = JSON.parse(body).check_response.flow_label_keys;
    assert.equal(await decidedByGrpc(client, { baggage }), 200);
    return keys.filter((key) => key === "user" || key === "rest");
  };
  assert.deepEqual(await labels("user=ann,rest=123456"), ["rest", "user"]);
  assert.deepEqual(await labels("user=ann,rest=1234567"), []);
});

for (const transport of ["own", "grpc-js"]) {
  test(`server.grpc.max_message_bytes: RESOURCE_EXHAUSTED (${transport})`, async (t) => {
    const env = { SVC_AGENT_SERVER_GRPC_TRANSPORT: transport };
    const client = grpcClient(t, await serve(t, "GRPC_MAX_MESSAGE_BYTES", 1_000, env));
    // Field 15 of a health request is unknown: a tag, two bytes of length, and the rest.
    const message = (size: number) => {
      const bytes = Buffer.alloc(size, "x");
      bytes.set([0x7a, ((size - 3) & 0x7f) | 0x80, (size - 3) >> 7]);
      return bytes;
    };
    const check = async (size: number) =>
      (await client.unary("/grpc.health.v1.Health/Check", message(size))).code;
    assert.equal(await check(1_000), OK);
    assert.equal(await check(1_001), RESOURCE_EXHAUSTED);
  });
}

const PER_USER = `circuit:
  components:
    - flow_control:
        concurrency_limiter:
          in_ports: { max_concurrency: { constant_signal: { value: 1 } } }
          parameters: { max_inflight_duration: 3600s, limit_by_label_key: http.request.header.user }
          selectors: [{ control_point: ingress }]
`;

test("flow_control.max_keys: a limiter that is full of keys in use counts no further one apart", async (t) => {
  const env = { SVC_AGENT_FLOW_CONTROL_MAX_KEYS: "1024" };
  const { address } = await standalone(t, { policies: { "per-user.yaml": PER_USER }, env });
  for (let user = 0; user < 1_100; user++) await passes(address, "ingress", { user: `${user}` });
  const { keys_overflow: overflow = 0 } = await counted(address, "sluice_anomalies_total", "kind");
  assert.ok(overflow >= 1_100 - 1_024, `${overflow} flows had a key that did not fit`);
});
