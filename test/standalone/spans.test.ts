// The spans of SDKs and of the plugin of nginx and Kong at a running standalone: each ends the flow that its sender began
// and feeds a flux meter. The spans are those of `test/cases/otlp`, with the decision about a flow of this test.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { slotsHeld, slotsPolicy } from "../kit/attack/slots.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { call } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const ExportTraceServiceRequestSchema = schemaOf(
  "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest",
);

const CASES = "test/cases/otlp";
const DECISION = "aperture.check_response";

async function target(t: TestContext): Promise<string> {
  const { address } = await standalone(t, {
    policies: {
      "slots.yaml": slotsPolicy("feature", 10),
      "meter.yaml":
        "resources: {flow_control: {flux_meters: {latency: {selectors: [{control_point: feature}]}}}}\n" +
        "circuit: {components: []}\n",
    },
  });
  return address;
}

/** The part of an answer to a check that begins a flow. */
async function began(address: string, path: string, request: object) {
  const reply = await call(address, "POST", path, { control_point: "feature", ...request });
  assert.equal(reply.status, 200, reply.body);
  assert.equal(await slotsHeld(address, "feature"), 1, "the flow has a slot");
  return JSON.parse(reply.body);
}

async function ended(address: string): Promise<void> {
  assert.equal(await slotsHeld(address, "feature"), 0, "the span ended the flow");
  const taken = await counted(address, "sluice_access_log_records_total", "result");
  assert.deepEqual(taken, { taken: 1 });
  assert.deepEqual(await counted(address, "flux_meter_count", "flux_meter_name"), { latency: 1 });
}

for (const sdk of ["go", "java"])
  test(`the span of a flow of the ${sdk} SDK, over gRPC`, async (t) => {
    const address = await target(t);
    const decision = await began(address, "/v1/flowcontrol/check", { labels: { user: "ann" } });
    const request = fromBinary(
      ExportTraceServiceRequestSchema,
      readFileSync(`${CASES}/aperture-${sdk}.traces.pb`),
    );
    const spans = request.resourceSpans[0]?.scopeSpans[0]?.spans ?? [];
    spans.splice(1);
    for (const { key, value } of spans[0]?.attributes ?? [])
      if (key === DECISION && value !== undefined)
        value.value = { case: "stringValue", value: JSON.stringify(decision) };
    const { code } = await grpcClient(t, address).unary(
      "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
      toBinary(ExportTraceServiceRequestSchema, request),
    );
    assert.equal(code, 0);
    await ended(address);
  });

test("the span of a request through the plugin of nginx and Kong, in JSON", async (t) => {
  const address = await target(t);
  const request = { method: "GET", path: "/" };
  const answer = await began(address, "/v1/flowcontrol/checkhttp", { request });
  const text = readFileSync(`${CASES}/aperture-lua.traces.json`, "utf8");
  const { resource_spans: all } = JSON.parse(text);
  const [first] = all;
  for (const attribute of first.instrumentation_library_spans[0].spans[0].attributes)
    if (attribute.key === DECISION)
      attribute.value.string_value = answer.dynamic_metadata[DECISION];
  const reply = await call(address, "POST", "/v1/traces", { resource_spans: [first] });
  assert.deepEqual(reply, { status: 200, body: "{}" });
  await ended(address);
});
