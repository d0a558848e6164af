// Agents in processes of their own that count concurrency slots for each other, over a real etcd: flows end at other agents
// than they began at, and agents die while they hold and count slots.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { begin, call, endFlow, type HeldSlot } from "../../kit/sluice/check.ts";
import { until } from "../../kit/until.ts";

const LIMIT = 10;
const FLOWS = 30;

const policyOf = (onFailure: "closed" | "local") => `circuit:
  components:
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: shop }]
          in_ports: { max_concurrency: { constant_signal: { value: ${LIMIT} } } }
          parameters:
            { limit_by_label_key: http.request.header.user, max_inflight_duration: 3600s, on_failure: ${onFailure} }
`;

interface Stats {
  readonly members: readonly unknown[];
  readonly joining: boolean;
  readonly slots: number;
}

async function stats(agent: SluiceChild): Promise<Stats> {
  const { status, body } = await call(agent.address(), "GET", "/v1/distcache/stats");
  assert.equal(status, 200, body);
  return JSON.parse(body);
}

async function ready(agents: readonly SluiceChild[]) {
  for (const agent of agents) {
    await until("the agent has the policy", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return body.includes("1 rule in force") || body.includes("1 rules in force");
    });
    await until("all agents count", async () => {
      const { members, joining } = await stats(agent);
      return members.length === agents.length && !joining;
    });
  }
}

async function fleet(t: TestContext, onFailure: "closed" | "local" = "closed") {
  const { endpoints } = await startEtcd(t);
  const policies = folderOf(t, { "limit.yaml": policyOf(onFailure) });
  const controller = startSluice(t, "controller", endpoints, ["--policies", policies]);
  const agents = Array.from({ length: 3 }, () =>
    startSluice(t, "agent", endpoints, [], {
      COUNTERS_ENGINE: "peers",
      COUNTERS_PEERS_TIMEOUT: "5s",
      ETCD_LEASE_TTL: "600s",
      DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
      DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
    }),
  );
  await listening(controller, ...agents);
  await ready(agents);
  // The first numbers come with the first tick.
  await until("the limit is in force", async () => {
    const { accepted, slots } = await begin(agents[0]?.address() ?? "", "shop", { user: "first" });
    return accepted && slots.length === 1;
  });
  return agents;
}

/** Begins flows of a user at the agents in turn, all at one time, and returns the slots of those that pass. */
async function beginMany(agents: readonly SluiceChild[], user: string) {
  const flows = await Promise.all(
    Array.from({ length: FLOWS }, (_, n) =>
      begin(agents[n % agents.length]?.address() ?? "", "shop", { user }),
    ),
  );
  return flows.flatMap(({ slots }) => slots);
}

const ended = async (agent: SluiceChild | undefined, slots: readonly HeldSlot[]) =>
  (await endFlow(agent?.address() ?? "", "shop", slots)).filter((known) => known).length;

test("three agents let ten of thirty flows of each user in, and FlowEnd at any agent makes room", async (t) => {
  const agents = await fleet(t);
  for (const user of ["ann", "bob", "eve", "joe"]) {
    const slots = await beginMany(agents, user);
    assert.equal(slots.length, LIMIT, user);
    for (const [at, agent] of agents.entries()) {
      assert.equal(await ended(agent, slots.slice(at * 3, at * 3 + 3)), 3);
    }
    assert.equal(await ended(agents[0], slots), 1, "nine are ended already");
    assert.equal((await beginMany(agents, user)).length, LIMIT, user);
  }
});

test("an agent that is killed takes along the slots that it counts, and no others", async (t) => {
  const agents = await fleet(t);
  const users = Array.from({ length: 12 }, (_, at) => `user-${at}`);
  const held = new Map<string, readonly HeldSlot[]>();
  for (const user of users) held.set(user, await beginMany(agents, user));
  const [lost, ...left] = agents;
  assert.ok(lost);
  const counts = await Promise.all(left.map(stats));
  lost.kill("SIGKILL");
  await lost.ended;
  await ready(left);
  const known = counts.reduce((sum, { slots }) => sum + slots, 0);
  let passed = 0;
  for (const user of users) {
    const slots = await beginMany(left, user);
    assert.ok(slots.length === 0 || slots.length === LIMIT, `${slots.length} of ${user} passed`);
    passed += slots.length;
    // The flows go on at the service, and end at another agent than the one that is gone.
    if (slots.length === 0) assert.equal(await ended(left[0], held.get(user) ?? []), LIMIT);
  }
  // Those of user `first`, who took what it got until the limit was in force, are not asked for again.
  assert.ok(known >= users.length * LIMIT - passed, `${known} known, ${passed} passed`);
});

for (const mode of ["closed", "local"] as const) {
  test(`slots that a frozen agent counts: on_failure ${mode} answers, and the others are counted as before`, async (t) => {
    const agents = await fleet(t, mode);
    const [frozen, ...left] = agents as [SluiceChild, ...SluiceChild[]];
    const users = Array.from({ length: 12 }, (_, at) => `user-${at}`);
    await frozen.freeze();
    const held = new Map<string, readonly HeldSlot[]>();
    for (const user of users) held.set(user, await beginMany(left, user));
    const counts = [...held.values()].map((slots) => slots.length);
    // Those of the frozen agent: none, or at each of the others as many as all together may have.
    const instead = mode === "closed" ? 0 : LIMIT * left.length;
    const others = counts.filter((count) => count === LIMIT).length;
    const own = counts.filter((count) => count === instead).length;
    assert.ok(others > 0 && own > 0 && others + own === users.length, `${counts}`);
    for (const slots of held.values()) {
      const local = slots.filter(({ request_id }) => request_id.startsWith("local/"));
      assert.equal(local.length, slots.length === LIMIT ? 0 : instead);
    }
    frozen.kill("SIGCONT");
    for (const agent of left) {
      await until("all agents answer", async () => {
        const { body } = await call(agent.address(), "GET", "/v1/status/system/counters");
        return body.includes("all agents of the group answer");
      });
    }
    for (const [user, slots] of held) {
      const more = await beginMany(agents, user);
      assert.equal(more.length, slots.length === LIMIT ? 0 : LIMIT, user);
    }
  });
}
