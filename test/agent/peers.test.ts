// The routes and the service that show the agents of a group.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { readMember } from "#fleet/members.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { PEERS } from "#sync/keys.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { processContext } from "../kit/process-context.ts";
import { call } from "../kit/sluice/check.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { storeWith } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";

async function agentOn(
  t: TestContext,
  store: Store,
  seed: number,
  env: Readonly<Record<string, string>> = {},
  pod: Readonly<Record<string, string>> = {},
) {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const local = { COUNTERS_ENGINE: "local", ...env };
  const config = configOf("agent", variables("agent", local));
  const { main } = await startAgentProcess({
    config,
    store: storeWith(store, { close: async () => undefined }),
    context: processContext(scope, { env: pod }),
    chance: seededChance(seed),
    log: { ...memoryLog(), close: async () => undefined },
  });
  return { address: main.address, scope };
}

const get = async (address: string, path: string) => {
  const { status, body } = await call(address, "GET", path);
  return { status, body: JSON.parse(body) };
};

const known = (address: string, count: number) =>
  until(`${count} agents are known`, async () => {
    const { body } = await get(address, "/v1/peers");
    return Object.keys(body.peers).length === count;
  });

test("dist_cache.memberlist_advertise_addr is where others probe this agent", async (t) => {
  const { address } = await agentOn(t, memoryStore(), 1, {
    COUNTERS_ENGINE: "peers",
    DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
    DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
    DIST_CACHE_MEMBERLIST_ADVERTISE_ADDR: "10.9.8.7:3322",
  });
  await known(address, 1);
  const { body } = await get(address, "/v1/peers");
  assert.ok(Object.values(body.self_peer.services).includes("10.9.8.7:3322"), JSON.stringify(body));
});

for (const [ip, announced] of [
  ["10.1.2.3", "10.1.2.3"],
  ["2001:db8::7", "[2001:db8::7]"],
] as const)
  test(`an agent in a pod announces the pod's address: ${announced}`, async (t) => {
    const peers = {
      COUNTERS_ENGINE: "peers",
      DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
      DIST_CACHE_MEMBERLIST_BIND_ADDR: "0.0.0.0:0",
    };
    const { address } = await agentOn(t, memoryStore(), 1, peers, { POD_IP: ip });
    await known(address, 1);
    const { body } = await get(address, "/v1/peers");
    assert.equal(body.self_peer.address, `${announced}:${address.split(":")[1]}`);
    const services: readonly string[] = Object.values(body.self_peer.services);
    assert.ok(
      services.some((each) => each.startsWith(`${announced}:`)),
      services.join(),
    );
  });

test("two agents show one another; peer_discovery.advertisement_addr is what is announced", async (t) => {
  const store = memoryStore();
  const one = await agentOn(t, store, 1);
  const two = await agentOn(t, store, 2, { PEER_DISCOVERY_ADVERTISEMENT_ADDR: "agent2.local:81" });
  await agentOn(t, store, 3, { AGENT_INFO_AGENT_GROUP: "default2" });
  await known(one.address, 2);
  const { body } = await get(one.address, "/v1/peers");
  const port = one.address.split(":")[1];
  assert.ok(body.self_peer.address.endsWith(`:${port}`), body.self_peer.address);
  assert.deepEqual(body.peers[body.self_peer.address], body.self_peer);
  const { id, hostname, ...rest } = body.peers["agent2.local:81"];
  assert.deepEqual(rest, { address: "agent2.local:81", services: {} });
  assert.match(id, /^[0-9a-f-]{36}$/);
  const found = await get(one.address, "/v1/peers/address/agent2.local:81");
  assert.deepEqual(found, {
    status: 200,
    body: { address: "agent2.local:81", hostname, services: {}, id },
  });
  assert.deepEqual(await get(one.address, "/v1/peers/address/10.9.9.9:1"), {
    status: 404,
    body: { code: 5, message: "peer not found", details: [] },
  });
  const { body: metrics } = await call(one.address, "GET", "/metrics");
  assert.match(metrics, /^sluice_peers 2$/m);
  const { body: status } = await get(one.address, "/v1/status/system/peers");
  assert.match(JSON.stringify(status), /announced as /);
  await two.scope.close("drain");
  await known(one.address, 1);
});

test("the gRPC service answers alike", async (t) => {
  const { address } = await agentOn(t, memoryStore(), 1);
  await known(address, 1);
  const client = grpcClient(t, address);
  const ask = async (method: string, message: Uint8Array) => {
    const reply = await client.unary(`/aperture.peers.v1.PeerDiscoveryService/${method}`, message);
    return reply.message ?? assert.fail(reply.details);
  };
  const all = decode("aperture.peers.v1.Peers", await ask("GetPeers", Buffer.alloc(0)));
  const own = all.selfPeer?.address ?? "";
  assert.deepEqual(all.peers[own], all.selfPeer);
  const asked = encode("aperture.peers.v1.PeerRequest", { address: own });
  assert.deepEqual(decode("aperture.peers.v1.Peer", await ask("GetPeer", asked)), all.selfPeer);
});

test("an agent on a Unix socket announces its id", async (t) => {
  const store = memoryStore();
  const path = join(folderOf(t), "agent.sock");
  await agentOn(t, store, 1, { SERVER_LISTENER_ADDR: `unix:${path}` });
  await until("it is announced", async () => (await store.list(PEERS)).entries.length === 1);
  const [entry] = (await store.list(PEERS)).entries;
  const { address, id } = readMember(entry?.key ?? "", entry?.value ?? Buffer.alloc(0));
  assert.equal(address, id);
});

test("standalone shows its one process", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  await known(address, 1);
  const { body } = await get(address, "/v1/peers");
  assert.deepEqual(body.peers, { [body.self_peer.address]: body.self_peer });
});
