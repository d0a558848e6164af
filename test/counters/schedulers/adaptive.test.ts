// Adaptive concurrency in a fleet of real processes: with peers the agent that counts a key finds its limit from the flows
// of all agents, and shows it; over Redis agents refuse such a policy, and its author is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { limiterPolicy } from "../../kit/messages/policy.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { begin, call, endFlow } from "../../kit/sluice/check.ts";
import { until } from "../../kit/until.ts";

const START = 8;
const MOST = 12;

const POLICY = limiterPolicy(
  "concurrency_limiter",
  `parameters: { max_inflight_duration: 3600s, on_failure: closed, adaptive: { start: ${START}, min: 2, max: ${MOST} } }`,
);

/** Agents that share their counts in this way, and their controller. */
async function fleet(
  t: Parameters<typeof startSluice>[0],
  count: number,
  env: Readonly<Record<string, string>>,
) {
  const { endpoints } = await startEtcd(t);
  const folder = folderOf(t, { "adaptive.yaml": POLICY });
  const controller = startSluice(t, "controller", endpoints, ["--policies", folder]);
  const agents = Array.from({ length: count }, () =>
    startSluice(t, "agent", endpoints, [], {
      ...env,
      COUNTERS_PEERS_TIMEOUT: "5s",
      DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
      DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
    }),
  );
  await listening(controller, ...agents);
  return { controller, agents };
}

const get = async (of: SluiceChild, path: string) => (await call(of.address(), "GET", path)).body;

/** The limit that an agent shows; undefined where another agent counts the flows. */
async function limitAt(agent: SluiceChild): Promise<string | undefined> {
  return /"a limit of ([^"]+)"/.exec(await get(agent, "/v1/status/system/limits"))?.[1];
}

test("peers: one agent finds the limit from the flows of the others, one of which is slow", async (t) => {
  const { agents } = await fleet(t, 3, { COUNTERS_ENGINE: "peers" });
  for (const agent of agents) {
    await until("all agents count", async () => {
      const { members, joining } = JSON.parse(await get(agent, "/v1/distcache/stats"));
      return members.length === agents.length && joining === false;
    });
    await until("the limit is in force", async () => {
      const { accepted, slots } = await begin(agent.address(), "p");
      if (slots.length > 0) await endFlow(agent.address(), "p", slots);
      return accepted && slots.length > 0;
    });
  }
  const shown = await Promise.all(agents.map(limitAt));
  const owners = agents.filter((_, at) => shown[at] !== undefined);
  assert.equal(owners.length, 1, `${shown}`);
  const owner = owners[0] ?? assert.fail();
  const others = agents.filter((agent) => agent !== owner);

  let inFlight = 0;
  let most = 0;
  let stop = false;
  const passed = others.map(() => 0);
  const caller = async (at: number) => {
    const { address } = others[at] ?? assert.fail();
    while (!stop) {
      const { accepted, slots } = await begin(address(), "p");
      if (!accepted) {
        await sleep(10);
        continue;
      }
      inFlight += 1;
      most = Math.max(most, inFlight);
      passed[at] = (passed[at] ?? 0) + 1;
      await sleep(at === 0 ? 20 : 80);
      inFlight -= 1;
      await endFlow(address(), "p", slots);
    }
  };
  const callers = Array.from({ length: 2 * MOST }, (_, at) => caller(at % others.length));
  await until("the limit has moved, and the latency is known", async () => {
    const limit = (await limitAt(owner)) ?? "";
    return /ms without a queue$/.test(limit) && !limit.startsWith(`${START},`);
  });
  stop = true;
  await Promise.all(callers);
  t.diagnostic(`${await limitAt(owner)}; ${passed} passed, ${most} in flight at most`);
  assert.ok(most <= MOST, `${most} in flight`);
  assert.ok(
    passed.every((count) => count > 0),
    `${passed}`,
  );
  for (const agent of others) {
    assert.match(
      await get(agent, "/v1/status/system/limits"),
      /another agent counts the keys of this limiter/,
    );
  }
  const last = await begin(owner.address(), "p");
  assert.deepEqual([last.accepted, last.inFlight], [true, 0], "all slots are back");
});

test("Redis: an agent refuses the policy, and its status and that of the policy say why", async (t) => {
  const redis = await startRedis(t);
  const { controller, agents } = await fleet(t, 1, {
    COUNTERS_ENGINE: "redis",
    COUNTERS_REDIS_URL: redis.url,
  });
  const agent = agents[0] ?? assert.fail();
  const why = "adaptive max_concurrency: wanted counters.engine local or peers, got redis";
  await until("its status says so", async () =>
    (await get(agent, "/v1/status/system/readiness")).includes(why),
  );
  await agent.until("its log says so", () => agent.printed().includes(why));
  await until("the policy's status says so", async () => {
    const { rollout } = JSON.parse(await get(controller, "/v1/policies/adaptive"));
    return rollout?.refused?.[0]?.endsWith(why) === true && rollout.applied === 0;
  });
  await controller.until("its log says so", () => controller.printed().includes(why));
});
