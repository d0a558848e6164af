// Whose baggage becomes a label: what a proxy says of its clients, and names that only a Rego module would make.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClassifierRule } from "#flow/rules.ts";
import { agentOf, callOf, common, embedded, endpointsOf } from "../../kit/api/agent.ts";
import { CP, perUser, threeEach } from "../../kit/api/corpus.ts";

const byTenant = { ...perUser, limitByLabelKey: "tenant", tokensLabelKey: "" };
/** Reported for a flow without the label. */
const unkeyed = "";
const keyed = "tenant:acme";

/** The key by which a request with baggage is limited, as the reply reports it. */
async function keyOf(
  { proxy }: ReturnType<typeof endpointsOf>,
  contextExtensions: Readonly<Record<string, string>>,
  metadata: Readonly<Record<string, string>> = {},
): Promise<string | undefined> {
  const headers = { baggage: "tenant=acme" };
  const attributes = { contextExtensions, request: { http: { method: "GET", headers } } };
  const reply = await proxy({ attributes }, callOf({ ...CP, ...metadata }));
  const [decision] = embedded(reply.dynamicMetadata).limiterDecisions;
  return decision?.details.case === "rateLimiterInfo" ? decision.details.value.label : undefined;
}

test("a proxy says in a context extension or in metadata whether its clients are believed", async () => {
  const endpoints = endpointsOf(agentOf([[byTenant, threeEach]]).flowController);
  const says = (value: string) => ({ "client-baggage": value });
  assert.equal(await keyOf(endpoints, {}), keyed);
  assert.equal(await keyOf(endpoints, says("ignore")), unkeyed);
  assert.equal(await keyOf(endpoints, says("believe")), keyed);
  assert.equal(await keyOf(endpoints, says("Believe")), unkeyed, "neither word");
  assert.equal(await keyOf(endpoints, {}), keyed, "what one check says is not kept for the next");
  assert.equal(await keyOf(endpoints, says("believe"), says("ignore")), unkeyed);
  assert.equal(await keyOf(endpoints, says("ignore"), says("believe")), keyed);
});

test("baggage does not set a label that a Rego module would make, although it is not run", async () => {
  const { policyName, policyHash, selectors } = common;
  const module: ClassifierRule = {
    kind: "classifier",
    policyName,
    policyHash,
    selectors,
    index: 0,
    rules: [],
    rego: ["tenant"],
  };
  const { flowController } = agentOf([[module], [byTenant, threeEach]]);
  assert.equal(await keyOf(endpointsOf(flowController), {}), unkeyed);
});
