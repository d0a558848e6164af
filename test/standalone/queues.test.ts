// Checks that wait, through every door of a real Sluice: Envoy's gRPC, the SDK's gRPC, and JSON. What lets a flow pass is the
// end of another one, so nothing here depends on time.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { readLoggedDecision } from "#wire/check/logged-decision.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { begin, endFlow, type HeldSlot } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const FlowCheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const FlowCheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const CHECK_HTTP = "/v1/flowcontrol/checkhttp";
const AUTHORIZATION = "/envoy.service.auth.v3.Authorization/Check";
const CHECK = "/aperture.flowcontrol.check.v1.FlowControlService/Check";
const METADATA = "aperture.check_response";

/** One flow in flight at a time. */
const POLICY = `circuit:
  evaluation_interval: 1s
  components:
    - variable:
        constant_output: {value: 0}
        config_key: open
        out_ports: {output: {signal_name: OPEN}}
    - flow_control:
        concurrency_scheduler:
          in_ports:
            max_concurrency: {constant_signal: {value: 1}}
            pass_through: {signal_name: OPEN}
          concurrency_limiter: {max_inflight_duration: 600s}
          scheduler:
            # A check is refused this long before its deadline: longer than a busy machine takes for the reply.
            decision_deadline_margin: 20s
            priority_label_key: p
            workloads:
              - name: vip
                label_matcher: {match_labels: {http.request.header.x_user: vip}}
                parameters: {priority: 10}
          selectors: [{control_point: here, agent_group: default}]
`;

const VIP = { "x-user": "vip" };

async function started(t: TestContext) {
  return standalone(t, { policies: { "queue.yaml": POLICY } });
}

async function untilWaiting(address: string, flows: number): Promise<void> {
  await until(`${flows} flows wait`, async () => {
    const waiting = await counted(address, "sluice_scheduler_waiting_flows", "policy_name");
    return (waiting["queue"] ?? 0) === flows;
  });
}

/** Holds the only place. Before the limit is in force, flows pass without one. */
async function hold(address: string): Promise<readonly HeldSlot[]> {
  let slots: readonly HeldSlot[] = [];
  await until("the limit is in force", async () => {
    ({ slots } = await begin(address, "here"));
    return slots.length > 0;
  });
  return slots;
}

/** Checks at each door; each returns the slots of the flow. */
function doorsOf(t: TestContext, address: string) {
  const client = grpcClient(t, address);
  return {
    async envoy(signal?: AbortSignal, timeout = 60_000): Promise<readonly HeldSlot[]> {
      const http = { method: "GET", path: "/", headers: VIP };
      const request = create(CheckRequestSchema, { attributes: { request: { http } } });
      const { message, code } = await client.unary(
        AUTHORIZATION,
        toBinary(CheckRequestSchema, request),
        {
          metadata: { "control-point": "here" },
          timeout,
          ...(signal === undefined ? {} : { signal }),
        },
      );
      if (code !== 0) return [];
      const reply = fromBinary(CheckResponseSchema, message ?? new Uint8Array());
      const { slots, workloads } = readLoggedDecision(String(reply.dynamicMetadata?.[METADATA]));
      assert.deepEqual(
        workloads.map(({ workload }) => workload),
        ["vip"],
      );
      if (reply.httpResponse.case === "deniedResponse") {
        assert.equal(reply.httpResponse.value.status?.code, 503);
      }
      return slots.map((slot) => ({
        policy_name: slot.policyName,
        policy_hash: slot.policyHash,
        component_id: slot.componentId,
        label: slot.label,
        request_id: slot.requestId,
        tokens: slot.tokens,
      }));
    },
    async sdk(): Promise<readonly HeldSlot[]> {
      const request = create(FlowCheckRequestSchema, {
        controlPoint: "here",
        labels: { p: "3" },
        expectEnd: true,
      });
      const bytes = toBinary(FlowCheckRequestSchema, request);
      const { message } = await client.unary(CHECK, bytes, { timeout: 60_000 });
      const reply = fromBinary(FlowCheckResponseSchema, message ?? new Uint8Array());
      const [decision] = reply.limiterDecisions;
      assert.equal(decision?.details.case, "concurrencySchedulerInfo");
      const { label, requestId, workloadIndex, priority, tokensInfo } = decision.details.value;
      assert.deepEqual([workloadIndex, priority, tokensInfo?.consumed], ["default", 3, 1]);
      return [
        {
          policy_name: decision.policyName,
          policy_hash: decision.policyHash,
          component_id: decision.componentId,
          label,
          request_id: requestId,
          tokens: 1,
        },
      ];
    },
    json: async () => (await begin(address, "here", VIP)).slots,
  };
}

test("a check waits for its place at every door, and its reply names the place", async (t) => {
  const { address } = await started(t);
  let held = await hold(address);
  for (const [door, check] of Object.entries(doorsOf(t, address))) {
    const answer = check();
    await untilWaiting(address, 1);
    assert.deepEqual(await endFlow(address, "here", held), [true], door);
    held = await answer;
    assert.equal(held.length, 1, door);
  }
  assert.deepEqual(await endFlow(address, "here", held), [true]);
});

test("a caller that goes away gives up its place in the queue at once", async (t) => {
  const { address } = await started(t);
  const held = await hold(address);
  const { envoy } = doorsOf(t, address);
  const abandoned = async () =>
    (await counted(address, "sluice_anomalies_total", "kind"))["abandoned"] ?? 0;

  await t.test("with RST_STREAM", async () => {
    const leaving = new AbortController();
    const answer = envoy(leaving.signal);
    await untilWaiting(address, 1);
    leaving.abort();
    await untilWaiting(address, 0);
    assert.deepEqual(await answer, []);
    assert.equal(await abandoned(), 1);
  });

  await t.test("by closing its HTTP/1 connection", async (t) => {
    const [host = "", port = ""] = address.split(":");
    const socket = connect({ host, port: Number(port) });
    t.after(() => socket.destroy());
    const body = JSON.stringify({ control_point: "here", request: { method: "GET", path: "/" } });
    socket.write(
      `POST ${CHECK_HTTP} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
    await untilWaiting(address, 1);
    socket.destroy();
    await untilWaiting(address, 0);
    assert.equal(await abandoned(), 2);
  });

  await t.test("and one whose deadline comes is refused in time", async () => {
    assert.deepEqual(await envoy(undefined, 20_500), []);
    await untilWaiting(address, 0);
    assert.equal(await abandoned(), 2);
  });

  const answer = begin(address, "here", VIP);
  await untilWaiting(address, 1);
  await endFlow(address, "here", held);
  assert.equal((await answer).accepted, true);
});

test("a scheduler is switched to pass-through at run time, and lets those pass that wait", async (t) => {
  const { address, policies } = await started(t);
  await hold(address);
  const answer = begin(address, "here", VIP);
  await untilWaiting(address, 1);
  writeFileSync(join(policies, "queue.dynamic.yaml"), "open: {value: 1}\n");
  const { accepted, slots } = await answer;
  assert.deepEqual([accepted, slots], [true, []]);
});
