// A controller and its agents: the service of the command line, its JSON routes, and how far policies are rolled out.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  createRegistry,
  type DescMethod,
  fromBinary,
  fromJson,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { StringValueSchema, StructSchema } from "@bufbuild/protobuf/wkt";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { startControllerProcess } from "#controller/process.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { registry } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { type Files, folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { processContext } from "../kit/process-context.ts";
import { call } from "../kit/sluice/check.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { connectionTo } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";

type Env = Readonly<Record<string, string>>;

function around(t: TestContext, store: Store, seed: number) {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  const options = {
    store: connectionTo(store),
    context: processContext(scope),
    chance: seededChance(seed),
    log: { ...log, close: async () => undefined },
  };
  return { scope, lines: log.lines, options };
}

async function agentOn(t: TestContext, store: Store, seed: number, env: Env = {}) {
  const { options, ...rest } = around(t, store, seed);
  const config = configOf("agent", variables("agent", env));
  const { main } = await startAgentProcess({ ...options, config });
  return { ...rest, address: main.address };
}

async function controllerOn(t: TestContext, store: Store, files: Files = {}, env: Env = {}) {
  const { options, ...rest } = around(t, store, 99);
  const config = configOf("controller", variables("controller", env));
  const policies = [folderOf(t, files)];
  const { main } = await startControllerProcess({ ...options, config, policies });
  return { ...rest, address: main.address };
}

const getJson = async (address: string, path: string) => {
  const { status, body } = await call(address, "GET", path);
  return { status, body: JSON.parse(body) };
};

/** Calls methods of the service with JSON. */
async function caller(t: TestContext, address: string) {
  const name = "aperture.cmd.v1.Controller";
  const service = registry.getService(name);
  const client = grpcClient(t, address);
  return async (rpc: string, request: object = {}) => {
    const method = service?.methods.find((each) => each.name === rpc) as DescMethod;
    const bytes = toBinary(method.input, fromJson(method.input, request as never));
    const { code, details, message } = await client.unary(`/${name}/${rpc}`, bytes);
    if (code !== 0) return { code, details };
    const reply = fromBinary(method.output, message ?? Buffer.alloc(0));
    const registry = createRegistry(StringValueSchema, StructSchema);
    const options = { useProtoFieldName: true, registry };
    return toJson(method.output, reply, options) as Record<string, unknown>;
  };
}

const limit = (capacity: number, group = "default") => `circuit:
  evaluation_interval: 0.05s
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop, agent_group: ${group} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${capacity} } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 60s }
`;

test("agents, control points and what is not there yet, over gRPC and JSON", async (t) => {
  const store = memoryStore();
  const { address, lines } = await controllerOn(t, store);
  const ask = await caller(t, address);
  const none = { code: 5, details: "no agents found for agent-group default" };
  assert.deepEqual(await ask("ListAgents"), none);
  assert.deepEqual(await ask("ListFlowControlPoints"), {});
  assert.equal((await ask("ListDiscoveryEntity", { name: "x" }))["code"], 5, "no agent to ask");
  const one = await agentOn(t, store, 1);
  const two = await agentOn(t, store, 2, { AGENT_INFO_AGENT_GROUP: "other" });
  const agents = async () => (await getJson(address, "/v1/agents")).body;
  await until("both agents are known", async () => (await agents()).agents.length === 2);
  for (const agent of [one, two])
    await call(agent.address, "POST", "/v1/flowcontrol/check", {
      control_point: "shop",
      labels: {},
    });
  await call(one.address, "POST", "/v1/flowcontrol/checkhttp", { control_point: "shop" });

  const { details } = await agents();
  assert.deepEqual(
    details.map((each: Record<string, string>) => [each["agent_group"], each["reached_by"]]),
    [
      ["default", "store"],
      ["other", "store"],
    ],
  );
  assert.equal(((await ask("ListAgents"))["agents"] as string[]).length, 1);
  assert.equal((await ask("ListAgents", { agent_group: "nobody" }))["code"], 5);
  const point = (agent_group: string, type: string) => ({
    flow_control_point: { control_point: "shop", type },
    agent_group,
  });
  assert.deepEqual(await ask("ListFlowControlPoints"), {
    global_flow_control_points: [
      point("default", "feature"),
      point("default", "http"),
      point("other", "feature"),
    ],
  });
  const shown = await getJson(address, "/v1/agents/controlpoints");
  assert.equal(shown.body.global_flow_control_points.length, 3);
  assert.equal(shown.body.errors_count, 0);
  assert.deepEqual(await ask("ListAutoScaleControlPoints"), {});
  assert.deepEqual(await ask("ListServices"), {});
  assert.deepEqual(await ask("ListDiscoveryEntities"), { entities: {} });
  assert.equal((await ask("ListDiscoveryEntity", { name: "x" }))["code"], 5);
  const preview = (control_point: string) =>
    ask("PreviewFlowLabels", { request: { samples: "1", control_point } });
  assert.deepEqual(await preview("nope"), { code: 9, details: "no agent with such control point" });
  assert.deepEqual(await preview("shop"), {
    code: 9,
    details: "not built yet: previews of flows",
  });
  assert.equal(
    (await ask("PreviewHTTPRequests", { request: { control_point: "shop" } }))["code"],
    3,
  );
  assert.deepEqual(await ask("CacheLookup", { request: {} }), {
    code: 9,
    details: "not built yet: caches",
  });
  assert.deepEqual(await ask("ListPolicies"), { policies: {} });
  const status = await ask("GetStatus", { path: "system/leadership" });
  assert.match(JSON.stringify(status), /leads as/);
  assert.deepEqual(await ask("GetStatus", { path: "no/such" }), {});
  assert.match(JSON.stringify(await ask("GetStatus")), /system:readiness/);

  // An agent that does not answer: its record is there, and nobody behind it.
  const key = "/peers/aperture-agent/default/gone:1";
  const [entry] = (await store.list("/peers/aperture-agent/default/")).entries;
  assert.ok(entry);
  const value = Buffer.from(entry.value);
  value.fill("0", value.lastIndexOf("-") + 1);
  await store.commit([{ kind: "put", key, value }], { lease: await store.lease() });
  await until("it is known", async () => (await agents()).agents.length === 3);
  const { errors_count } = await ask("ListFlowControlPoints");
  assert.equal(errors_count, 1);
  assert.ok(lines.some(({ message }) => /agents did not answer: gone:1 \(no answer/.test(message)));
});

test("administration guards the service and its routes", async (t) => {
  const token = "correct-horse-battery-staple";
  const { address } = await controllerOn(
    t,
    memoryStore(),
    {},
    { SERVER_ADMINISTRATION_TOKEN: token },
  );
  for (const path of ["/v1/agents", "/v1/agents/controlpoints", "/v1/agents/services"])
    assert.equal((await call(address, "GET", path)).status, 401, path);
  assert.equal((await (await caller(t, address))("ListAgents"))["code"], 16);
  const stream = grpcClient(t, address).bidirectional("/sluice.fleet.v1.AgentFunctions/Serve");
  const code = await new Promise((resolve) => {
    stream.on("error", (error: Error & { code: number }) => resolve(error.code));
    stream.resume();
  });
  assert.equal(code, 16);
});

test("a policy says how many agents apply its version, and which are behind", async (t) => {
  const store = memoryStore();
  const files = { "p.yaml": limit(5), "q.yaml": limit(5, "shop") };
  const { address } = await controllerOn(t, store, files);
  const rollout = async (name: string) =>
    (await getJson(address, `/v1/policies/${name}`)).body.rollout;
  assert.deepEqual(await rollout("p"), { agents: 0, applied: 0, behind: [], unknown: 0 });
  const one = await agentOn(t, store, 1);
  await agentOn(t, store, 2);
  await until("both apply it", async () => (await rollout("p")).applied === 2);
  assert.deepEqual(await rollout("p"), { agents: 2, applied: 2, behind: [], unknown: 0 });
  assert.equal((await rollout("q")).agents, 0);

  // As an agent would say that judges by an earlier version.
  const behind: string = (await getJson(one.address, "/v1/peers")).body.self_peer.address;
  const applied = (await store.list("/status/policies/default/")).entries;
  assert.equal(applied.length, 2);
  for (const { value } of applied) assert.equal(value.length, 10, "one version takes ten bytes");
  const { id: own } = (await getJson(one.address, "/v1/peers")).body.self_peer;
  await store.commit([
    { kind: "put", key: `/status/policies/default/${own}`, value: Buffer.alloc(0) },
  ]);
  await until("one is behind", async () => (await rollout("p")).applied === 1);
  assert.deepEqual((await rollout("p")).behind, [behind]);
  const ask = await caller(t, address);
  const got = await ask("GetPolicy", { name: "p" });
  assert.deepEqual(got["rollout"], { agents: 2, applied: 1, behind: [behind] });
});

test("an agent says why it refuses a rule of a policy, and the controller passes it on and logs it", async (t) => {
  const store = memoryStore();
  const { address, lines } = await controllerOn(t, store, {
    "p.yaml": limit(5),
    "q.yaml": limit(5),
  });
  const { address: agent } = await agentOn(t, store, 1);
  const rollout = async (name: string) =>
    (await getJson(address, `/v1/policies/${name}`)).body.rollout;
  await until("it applies both", async () => (await rollout("p")).applied === 1);
  assert.equal("refused" in (await rollout("p")), false);
  const { address: name, id } = (await getJson(agent, "/v1/peers")).body.self_peer;
  const key = (await store.list("/config/rate_limiter/")).entries.find((entry) =>
    entry.key.includes("-policy-p-"),
  )?.key;
  assert.ok(key !== undefined);
  const written = (await store.list(key)).entries[0]?.value;
  assert.ok(written !== undefined);
  // As a controller of a later version might write it.
  await store.commit([{ kind: "put", key, value: Buffer.from([0xff]) }]);
  await until("the refusal arrives", async () => "refused" in (await rollout("p")));
  const { refused, ...rest } = await rollout("p");
  assert.deepEqual(rest, { agents: 1, applied: 0, behind: [name], unknown: 0 });
  assert.equal(refused.length, 1);
  assert.ok(refused[0].startsWith(`${name}: `) && refused[0].length > name.length + 10, refused[0]);
  const ask = await caller(t, address);
  const got = await ask("GetPolicy", { name: "p" });
  assert.deepEqual((got["rollout"] as { refused: unknown }).refused, refused);
  assert.equal("refused" in (await rollout("q")), false);
  await store.commit([{ kind: "put", key, value: written }]);
  await until("it is applied again", async () => (await rollout("p")).applied === 1);
  assert.equal("refused" in (await rollout("p")), false);
  const told = lines.filter(({ message }) => message.startsWith(`agent default/${id} refuses`));
  assert.deepEqual(
    told.map(({ level, message }) => [level, message.replace(/ \(.*\)$/, "")]),
    [
      ["warn", `agent default/${id} refuses rules of policy p`],
      ["info", `agent default/${id} refuses no rules any more`],
    ],
  );
});
