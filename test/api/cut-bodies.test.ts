// A proxy states in a header that it sent only the beginning of a body. Callers that describe a request themselves send
// their client's headers, which must not switch off what reads the body.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClassifierRule } from "#flow/rules.ts";
import { agentOf, callOf, common, embedded, endpointsOf } from "../kit/api/agent.ts";
import { CP } from "../kit/api/corpus.ts";

const USER: ClassifierRule = {
  kind: "classifier",
  policyName: "p",
  policyHash: "h1",
  index: 0,
  selectors: common.selectors,
  rules: [
    {
      label: "user",
      telemetry: true,
      unreadableValue: "cut",
      extractor: { kind: "json", from: "request.http.body", pointer: "/user" },
    },
  ],
};
const HEADER = "x-envoy-auth-partial-body";
const body = JSON.stringify({ user: "ann" });

for (const [stated, proxied] of [
  ["true", "cut"],
  ["false", "ann"],
] as const) {
  test(`a body with ${HEADER}: ${stated}`, async () => {
    const endpoints = endpointsOf(agentOf([[USER]]).flowController);
    const headers = { [HEADER]: stated };
    const raw = { headers: [{ key: HEADER, rawValue: Buffer.from(stated) }] };
    for (const http of [
      { body, headers },
      { body, headerMap: raw },
    ]) {
      const reply = await endpoints.proxy({ attributes: { request: { http } } }, callOf(CP));
      assert.equal(embedded(reply.dynamicMetadata).telemetryFlowLabels["user"], proxied);
    }

    const request = { body, headers };
    const binary = await endpoints.checkHttp({ controlPoint: "here", request });
    assert.equal(binary.checkResponse?.telemetryFlowLabels["user"], "ann");
    // The second one is read by the general parser.
    for (const unknown of [{}, { unknown: [] }]) {
      const json = await endpoints.checkHttpJson({ control_point: "here", request, ...unknown });
      assert.equal(json.check_response.telemetry_flow_labels.user, "ann");
    }
  });
}
