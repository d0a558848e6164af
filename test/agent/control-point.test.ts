// Checks over ext_authz at the port of an agent, with and without the name of a control point.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { embedded } from "../kit/api/agent.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { call } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { type Standalone, standaloneProcess } from "../kit/sluice/standalone.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const METHOD = "/envoy.service.auth.v3.Authorization/Check";
const NAME = "control-point";
const INVALID_ARGUMENT = 3;

interface Names {
  readonly metadata?: string;
  readonly extension?: string;
}

/** Asks about a request, and resolves with the control point of the decision, or with the code and words of the error. */
function proxyOf(t: TestContext, { address }: Standalone) {
  const client = grpcClient(t, address);
  return async ({ metadata, extension }: Names = {}) => {
    const contextExtensions = extension === undefined ? {} : { [NAME]: extension };
    const request = { http: { method: "GET", path: "/", headers: {} } };
    const attributes = { contextExtensions, request };
    const bytes = toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
    const headers = metadata === undefined ? {} : { [NAME]: metadata };
    const { code, details, message } = await client.unary(METHOD, bytes, { metadata: headers });
    if (message === undefined) return [code, details];
    return embedded(fromBinary(CheckResponseSchema, message).dynamicMetadata).controlPoint;
  };
}

const anomalies = async ({ address }: Standalone) =>
  (await counted(address, "sluice_anomalies_total", "kind"))["no_control_point"] ?? 0;

test("a check over ext_authz without a control point gets the default one, and its own wins", async (t) => {
  const env = { SVC_AGENT_FLOW_CONTROL_DEFAULT_CONTROL_POINT: "ingress" };
  const sluice = await standaloneProcess(t, { policies: {}, env });
  const ask = proxyOf(t, sluice);
  assert.equal(await ask(), "ingress");
  assert.equal(await ask({ metadata: "" }), "ingress");
  assert.equal(await ask({ extension: "" }), "ingress");
  assert.equal(await ask({ extension: "egress" }), "egress");
  assert.equal(await ask({ metadata: "gateway" }), "gateway");
  assert.equal(await ask({ metadata: "gateway", extension: "egress" }), "gateway");
  const long = "x".repeat(1_025);
  const [code] = await ask({ extension: long });
  assert.equal(code, INVALID_ARGUMENT, "a name that cannot be used is not replaced");
  assert.equal(await anomalies(sluice), 0);
  const json = await call(sluice.address, "POST", "/v1/flowcontrol/checkhttp", {});
  assert.equal(json.status, 400, "the default is for proxies only");
});

test("without a default one, such a check gets an error, which is counted and logged once with the key", async (t) => {
  const sluice = await standaloneProcess(t, { policies: {} });
  const ask = proxyOf(t, sluice);
  for (let at = 0; at < 3; at++)
    assert.deepEqual(await ask(), [INVALID_ARGUMENT, "missing control-point"]);
  assert.equal(await ask({ metadata: "ingress" }), "ingress");
  assert.equal(await anomalies(sluice), 3);
  const said = () => sluice.child.out() + sluice.child.err();
  await sluice.child.until("it is logged", () => said().includes("default_control_point"));
  assert.equal(said().split("flow_control.default_control_point").length, 2, said());
});
