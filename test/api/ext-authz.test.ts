// The ext_authz handler reads requests in place and reuses its objects: nothing of one check may leak into
// another, however long either waits.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { createOperationContext } from "#api/context.ts";
import { extAuthz } from "#api/ext-authz.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { agentOf, callOf, embedded } from "../kit/api/agent.ts";
import { CP, perUser, threeEach } from "../kit/api/corpus.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

/** A flow controller that can be slowed down: verdicts asked for while it is `slow` settle when the test calls `waiting`. */
function slowFlowController() {
  const waiting: (() => void)[] = [];
  const { flowController } = agentOf([[perUser, threeEach]]);
  const pace = { slow: true };
  const judge = (flow: Flow) => {
    if (!pace.slow) return flowController.judge(flow);
    const pending = new Pending<Verdict>();
    waiting.push(() => {
      const judged = flowController.judge(flow);
      assert.ok(!(judged instanceof Pending));
      pending.settle(judged);
    });
    return pending;
  };
  return { flowController: { ...flowController, judge }, waiting, pace };
}

function requestOf(path: string, user: string, from = "10.0.0.9"): Uint8Array {
  const address = { case: "socketAddress" as const, value: { address: from } };
  return toBinary(
    CheckRequestSchema,
    create(CheckRequestSchema, {
      attributes: {
        source: { address: { address } },
        request: { http: { method: "GET", path, headers: { "user-id": user } } },
      },
    }),
  );
}

/** The ext_authz handler alone: takes an encoded request and returns the encoded reply. */
function extAuthzOf(flowController: FlowController, lookup: ServiceLookup = NO_SERVICES) {
  const handle = extAuthz(createOperationContext(flowController, lookup, seededChance(3)));
  return (message: Uint8Array) => handle(message, callOf(CP));
}

const metadataOf = (reply: Uint8Array) => fromBinary(CheckResponseSchema, reply).dynamicMetadata;

/** The path and the limiter's label in a reply: both come from the request. */
function pathAndLabel(reply: Uint8Array) {
  const { telemetryFlowLabels, limiterDecisions } = embedded(metadataOf(reply));
  const details = limiterDecisions[0]?.details;
  const label = details?.case === "rateLimiterInfo" ? details.value.label : undefined;
  return [telemetryFlowLabels["http.target"], label];
}

const expected = (user: string) => [`/${user}`, `http.request.header.user_id:${user}`];

describe("an ext_authz check whose verdict comes later", () => {
  it("shares nothing with other checks, whether they wait or not", async () => {
    const { flowController, waiting, pace } = slowFlowController();
    const check = extAuthzOf(flowController);
    const ask = (user: string) => check(requestOf(`/${user}`, user));
    // Objects that the first check has released may be reused by one of the others, but only by one.
    pace.slow = false;
    const asked = [ask("eve")];
    pace.slow = true;
    asked.push(ask("ann"), ask("bob"));
    pace.slow = false;
    asked.push(ask("fay"));
    pace.slow = true;
    asked.push(ask("cid"), ask("dan"));
    assert.equal(waiting.length, 4);
    for (const settle of waiting.reverse()) settle();
    const replies = (await Promise.all(asked)).map(pathAndLabel);
    assert.deepEqual(replies, ["eve", "ann", "bob", "fay", "cid", "dan"].map(expected));
  });

  it("reads a copy of the request, so the caller may overwrite its bytes meanwhile", async () => {
    const { flowController, waiting } = slowFlowController();
    const check = extAuthzOf(flowController);
    const message = requestOf("/ann", "ann");
    const reply = check(message);
    message.fill(0x78);
    for (const settle of waiting) settle();
    assert.deepEqual(pathAndLabel(await reply), expected("ann"));
  });
});

describe("ext_authz checks with the same headers", () => {
  it("name the services of their own source, in whatever order they come", async () => {
    const lookup: ServiceLookup = {
      byAddress: (address) => (address === "10.0.0.1" ? ["a.svc"] : []),
    };
    const known = requestOf("/x", "ann", "10.0.0.1");
    const unknown = requestOf("/x", "ann", "10.0.0.2");
    const fresh = () => extAuthzOf(agentOf([]).flowController, lookup);
    const alone = { known: await fresh()(known), unknown: await fresh()(unknown) };
    const sourceOf = (reply: Uint8Array) =>
      embedded(metadataOf(reply)).telemetryFlowLabels["aperture.source_fqdns"];
    assert.equal(sourceOf(alone.known), "a.svc");
    assert.notEqual(sourceOf(alone.unknown), "a.svc");
    for (const order of [
      ["known", "unknown", "known"],
      ["unknown", "known", "unknown"],
    ] as const) {
      const check = fresh();
      for (const which of order) {
        const reply = await check(which === "known" ? known : unknown);
        // Compares bytes: decoding would hide a label that is there twice.
        assert.deepEqual(metadataOf(reply), metadataOf(alone[which]), order.join());
      }
    }
  });
});
