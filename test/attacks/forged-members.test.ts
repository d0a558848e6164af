// Records of agents that do not exist, in the etcd by which agents that count for each other know who they are. If they were
// believed, nobody would count the keys of the agents that they name.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { writeMember } from "#fleet/members.ts";
import type { Lease } from "#store/store.ts";
import { peerKey } from "#sync/keys.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import { listening, startSluice } from "../kit/servers/sluice.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { scraped } from "../kit/sluice/scrape.ts";
import { until } from "../kit/until.ts";

const FORGED = 11;
const CAPACITY = 4;
const USERS = Array.from({ length: 12 }, (_, at) => `user-${at}`);

const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, on_failure: closed, limit_by_label_key: http.request.header.user }
`;

/** An etcd with a controller, and a function that writes records at which nobody listens. */
async function fleet(t: TestContext) {
  const { endpoints } = await startEtcd(t);
  const store = openEtcd(t, etcdSettings(endpoints));
  const policies = folderOf(t, { "limit.yaml": POLICY });
  await listening(startSluice(t, "controller", endpoints, ["--policies", policies]));
  const forge = (idOf: (at: number) => string, lease?: Lease) => {
    const ops = Array.from({ length: FORGED }, (_, at) => {
      const address = `10.255.0.${at}:8080`;
      const services = { "sluice-counters": `127.0.0.1:${at + 1}` };
      const member = { group: "default", address, hostname: "forged", services, id: idOf(at) };
      return { kind: "put", key: peerKey("default", address), value: writeMember(member) } as const;
    });
    return store.commit(ops, lease === undefined ? {} : { lease });
  };
  const start = async () => {
    const agent = startSluice(t, "agent", endpoints, [], {
      COUNTERS_ENGINE: "peers",
      COUNTERS_LEASE_ENABLED: "false",
      COUNTERS_PEERS_TIMEOUT: "5s",
      DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
      DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
    });
    await listening(agent);
    const own = { ...agent, address: agent.address() };
    await until("its limit has numbers", () => passes(own.address, "shop", { user: own.address }));
    return own;
  };
  return { store, forge, start };
}

type Agent = Awaited<ReturnType<Awaited<ReturnType<typeof fleet>>["start"]>>;

/** Waits until an agent has left all forged records out, and has `count` members in its group and in its ring. */
async function leavesOut(agent: Agent, count: number) {
  const counted = async (name: string, value: number) =>
    new RegExp(`^${name} ${value}$`, "m").test(await scraped(agent.address));
  await until("the forged records are left out", () =>
    counted("sluice_peer_records_refused_total", FORGED),
  );
  await until("the agents are members", async () =>
    (
      await Promise.all([counted("sluice_peers", count), counted("sluice_counter_members", count)])
    ).every(Boolean),
  );
  const { status, body } = await call(agent.address, "GET", "/v1/status/system/peers");
  assert.equal(status, 503);
  assert.match(
    body,
    /records of agents that are left out: \/peers\/.*; delete the key|older record/,
  );
  assert.match(body, / and 6 more/);
  assert.equal(agent.printed().split("is left out").length - 1, FORGED, "one line for each");
}

/** Users of whom as many checks pass at the agents together as their limit admits. */
async function answered(agents: readonly Agent[]) {
  let count = 0;
  for (const user of USERS) {
    let passed = 0;
    for (let at = 0; at < CAPACITY + 2; at++)
      if (await passes(agents[at % agents.length]?.address ?? "", "shop", { user })) passed++;
    if (passed === CAPACITY) count++;
  }
  return count;
}

test("eleven records without a lease beside one agent, then two: each key is counted, once", async (t) => {
  const { forge, start } = await fleet(t);
  await forge((at) => `forged-${at}`);
  const one = await start();
  await leavesOut(one, 1);
  const two = await start();
  for (const agent of [one, two]) await leavesOut(agent, 2);
  assert.equal(await answered([one, two]), USERS.length);
});

test("eleven copies of an agent's record under other addresses, with a lease: each key is counted, once", async (t) => {
  const { store, forge, start } = await fleet(t);
  const agents = [await start(), await start()] as const;
  const { body } = await call(agents[0].address, "GET", "/v1/peers");
  const { id } = JSON.parse(body).self_peer;
  await forge(() => id, await store.lease());
  for (const agent of agents) await leavesOut(agent, 2);
  assert.equal(await answered(agents), USERS.length);
});
