// Three agents in processes of their own share one concurrency limit in a real Redis. Flows end at other agents than they
// began at, and an agent dies while its flows are in flight.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { begin, endFlow, type HeldSlot } from "../../kit/sluice/check.ts";
import { type StandaloneProcess, standaloneProcess } from "../../kit/sluice/standalone.ts";

const FlowEndRequestSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndRequest");
const FlowEndResponseSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndResponse");

const LIMIT = 10;
const FLOWS = 30;
/** Life of a slot in the limiter whose slots expire while the test waits. */
const BRIEF_MS = 6_000;

const POLICY = `circuit:
  components:${["shop 3600s", `brief ${BRIEF_MS / 1_000}s`]
    .map((limiter) => limiter.split(" "))
    .map(
      ([point, duration]) => `
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: ${point} }]
          in_ports: { max_concurrency: { constant_signal: { value: ${LIMIT} } } }
          parameters: { max_inflight_duration: ${duration}, on_failure: closed }`,
    )
    .join("")}
`;

async function fleet(t: TestContext) {
  const redis = await startRedis(t);
  const env = {
    SVC_AGENT_COUNTERS_ENGINE: "redis",
    SVC_AGENT_COUNTERS_REDIS_URL: redis.url,
    SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "10s",
  };
  const agents: StandaloneProcess[] = [];
  for (let n = 0; n < 3; n++) {
    agents.push(await standaloneProcess(t, { policies: { "limit.yaml": POLICY }, env }));
  }
  const serverMs = async () => {
    const [seconds, microseconds] = (await redis.command("TIME")) as [string, string];
    return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
  };
  const at = (n: number) => agents[n % agents.length]?.address ?? "";
  return { agents, at, serverMs };
}

/** Begins flows at the agents in turn, all at one time, and returns the slots of those that pass. */
async function beginMany(at: (n: number) => string, point: string): Promise<readonly HeldSlot[]> {
  const flows = await Promise.all(Array.from({ length: FLOWS }, (_, n) => begin(at(n), point)));
  assert.ok(flows.every(({ accepted, slots }) => slots.length === (accepted ? 1 : 0)));
  return flows.flatMap(({ slots }) => slots);
}

test("three agents let ten of thirty flows in, and FlowEnd at any agent makes room for another", async (t) => {
  const { agents, at } = await fleet(t);
  const first = await beginMany(at, "shop");
  assert.equal(first.length, LIMIT);
  assert.equal(new Set(first.map(({ request_id }) => request_id)).size, LIMIT);
  // All at one agent: most of them began at others.
  const inJson = first.slice(0, 5);
  assert.deepEqual(await endFlow(at(2), "shop", inJson), Array(5).fill(true));
  assert.deepEqual(await endFlow(at(1), "shop", inJson), Array(5).fill(false), "once only");
  const client = grpcClient(t, agents[1]?.address ?? "");
  const inflightRequests = first.slice(5).map((slot) => ({
    policyName: slot.policy_name,
    policyHash: slot.policy_hash,
    componentId: slot.component_id,
    label: slot.label,
    requestId: slot.request_id,
    tokens: slot.tokens,
  }));
  const ended = await client.unary(
    "/aperture.flowcontrol.check.v1.FlowControlService/FlowEnd",
    toBinary(
      FlowEndRequestSchema,
      create(FlowEndRequestSchema, { controlPoint: "shop", inflightRequests }),
    ),
  );
  assert.equal(ended.code, 0, ended.details);
  const statuses = fromBinary(FlowEndResponseSchema, ended.message ?? new Uint8Array());
  assert.deepEqual(
    statuses.tokenReturnStatuses.map(({ returned, error }) => [returned, error]),
    Array(5).fill([true, ""]),
  );

  // Thirty callers, whose flows each begin at one agent and end at the next.
  let inFlight = 0;
  let most = 0;
  let passed = 0;
  const caller = async (n: number) => {
    for (let turn = n; passed < 300; turn++) {
      const { slots } = await begin(at(turn), "shop");
      if (slots.length === 0) continue;
      passed++;
      inFlight++;
      most = Math.max(most, inFlight);
      assert.ok(inFlight <= LIMIT, `${inFlight} in flight`);
      await new Promise((resolve) => setImmediate(resolve));
      inFlight--;
      assert.deepEqual(await endFlow(at(turn + 1), "shop", slots), [true]);
    }
  };
  await Promise.all(Array.from({ length: FLOWS }, (_, n) => caller(n)));
  t.diagnostic(`${passed} flows passed, up to ${most} at one time`);
  assert.ok(most > 1);
  assert.equal((await beginMany(at, "shop")).length, LIMIT, "all slots came back");
});

test("an agent is killed while it holds slots: others end them, the rest expires in time", async (t) => {
  const { agents, at, serverMs } = await fleet(t);
  const held: HeldSlot[] = [];
  const before = await serverMs();
  for (let n = 0; n < LIMIT; n++) held.push(...(await begin(at(0), "brief")).slots);
  const after = await serverMs();
  assert.equal(held.length, LIMIT);
  agents[0]?.child.kill("SIGKILL");
  await agents[0]?.child.ended;
  const others = (n: number) => at((n % 2) + 1);
  // Its flows go on at the service: nobody else gets in, unless it took so long that they have expired.
  const early = await begin(others(0), "brief");
  if ((await serverMs()) < before + BRIEF_MS) {
    assert.equal(early.accepted, false);
    const ended = await endFlow(others(1), "brief", held.slice(0, 1));
    if ((await serverMs()) < before + BRIEF_MS) assert.deepEqual(ended, [true]);
  }
  while ((await serverMs()) <= after + BRIEF_MS) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const next = await beginMany(others, "brief");
  const alive = early.accepted ? 1 : 0;
  assert.ok(next.length === LIMIT || next.length === LIMIT - alive, `${next.length} passed`);
});
