// A reply shows a bounded part of a label's value, on every route; rules read all of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CUT_MARK, MAX_SHOWN_BYTES } from "#base/text/cut.ts";
import type { ClassifierRule, ConcurrencyLimiterRule } from "#flow/rules.ts";
import { agentOf, callOf, common, embedded, endpointsOf } from "../kit/api/agent.ts";

const classifier: ClassifierRule = {
  kind: "classifier",
  policyName: "p",
  policyHash: "h1",
  index: 0,
  selectors: common.selectors,
  rules: [
    {
      label: "user",
      telemetry: true,
      unreadableValue: "",
      extractor: { kind: "json", from: "request.http.body", pointer: "/user" },
    },
  ],
};
const onePerUser: ConcurrencyLimiterRule = {
  ...common,
  onMissingLabel: "pass",
  kind: "concurrency_limiter",
  componentId: "root.0",
  limitByLabelKey: "user",
  tokensLabelKey: "",
  maxInflightMs: 60_000,
  maxIdleMs: 0,
};

function agent() {
  const { flowController } = agentOf([
    [classifier],
    [
      onePerUser,
      {
        kind: "concurrency_limiter",
        policyName: "p",
        policyHash: "h1",
        componentId: "root.0",
        maxConcurrency: 1,
        passThrough: false,
      },
    ],
  ]);
  return endpointsOf(flowController);
}

const HUGE = "u".repeat(900_000);
const request = (user: string) => ({
  method: "POST",
  path: `/${"p".repeat(5_000)}`,
  host: "ü".repeat(2_000),
  body: JSON.stringify({ user }),
});

/** Every text in a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

test("a huge label comes back cut, and the reply stays small", async () => {
  const { checkHttpJson, checkHttp, proxy } = agent();
  const control = { control_point: "here" };
  const json = await checkHttpJson({ ...control, request: request(HUGE) });
  assert.ok(JSON.stringify(json).length < 20_000);
  const labels = json.check_response.telemetry_flow_labels;
  for (const name of ["user", "http.target", "http.host"]) {
    assert.equal(Buffer.byteLength(labels[name]), MAX_SHOWN_BYTES - (name === "http.host" ? 1 : 0));
    assert.ok(labels[name].endsWith(CUT_MARK), name);
  }
  const [decision] = json.check_response.limiter_decisions;
  const { label } = decision.concurrency_limiter_info;
  assert.ok(label.length <= "user:".length + MAX_SHOWN_BYTES);
  const described = await checkHttp({ controlPoint: "here", request: request(`2${HUGE}`) });
  const { headers: _, ...http } = { headers: {}, ...request(`3${HUGE}`) };
  const auth = await proxy(
    { attributes: { request: { http } } },
    callOf({ "control-point": "here" }),
  );
  for (const reply of [described.checkResponse, embedded(auth.dynamicMetadata)]) {
    for (const text of textsIn(reply)) assert.ok(Buffer.byteLength(text) <= MAX_SHOWN_BYTES + 5);
  }
});

test("a request without classifiers is bounded on the fast path, too", async () => {
  const { checkHttpJson } = endpointsOf(agentOf([]).flowController);
  const { body: _, ...plain } = request("");
  const { check_response: check } = await checkHttpJson({ control_point: "here", request: plain });
  const { "http.target": target, "http.host": host } = check.telemetry_flow_labels;
  assert.equal(target, `/${"p".repeat(MAX_SHOWN_BYTES - 4)}${CUT_MARK}`);
  assert.ok(host.endsWith(CUT_MARK) && Buffer.byteLength(host) <= MAX_SHOWN_BYTES);
});

test("long keys that differ at their end are different keys, and a flow ends by the key that its reply shows", async () => {
  const { checkHttpJson, flowEndJson } = agent();
  const ask = async (user: string) => {
    const reply = await checkHttpJson({ control_point: "here", request: request(user) });
    const { decision_type: type, limiter_decisions: decisions } = reply.check_response;
    return { type, info: decisions[0].concurrency_limiter_info };
  };
  const first = await ask(`${HUGE}a`);
  assert.equal(first.type, "DECISION_TYPE_ACCEPTED");
  assert.equal((await ask(`${HUGE}b`)).type, "DECISION_TYPE_ACCEPTED");
  assert.equal((await ask(`${HUGE}a`)).type, "DECISION_TYPE_REJECTED");
  const ref = { policy_name: "p", policy_hash: "h1", component_id: "root.0" };
  const { label, request_id } = first.info;
  const ended = await flowEndJson({
    control_point: "here",
    inflight_requests: [{ ...ref, label, request_id }],
  });
  assert.equal(ended.token_return_statuses[0].returned, true);
  assert.equal((await ask(`${HUGE}a`)).type, "DECISION_TYPE_ACCEPTED");
});
