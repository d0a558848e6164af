// Quota and concurrency schedulers over each counter engine there is, with real processes: who passes, who waits and in which
// order, what is refused, and what becomes of flows that wait while agents or Redis fail.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { type RedisServer, startRedis } from "../../kit/servers/redis.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { type BegunFlow, begin, call, endFlow } from "../../kit/sluice/check.ts";
import { counted, scraped } from "../../kit/sluice/scrape.ts";
import { until } from "../../kit/until.ts";

const ENGINES = ["local", "peers", "redis"] as const;
type Engine = (typeof ENGINES)[number];

const MODES = ["closed", "open", "local"] as const;

const SCHEDULER = JSON.stringify({
  workloads: [
    {
      name: "gold",
      label_matcher: { match_labels: { "http.request.header.tier": "gold" } },
      parameters: { priority: 100 },
    },
  ],
  default_workload_parameters: { queue_timeout: "60s" },
  tokens_label_key: "http.request.header.cost",
});
const KEY = "limit_by_label_key: http.request.header.user";

const slots = (
  group: string,
  point: string,
  most: number,
  more = "max_inflight_duration: 3600s",
) => `
    - flow_control:
        concurrency_scheduler:
          selectors: [{ control_point: ${point}, agent_group: ${group} }]
          in_ports: { max_concurrency: { constant_signal: { value: ${most} } } }
          concurrency_limiter: { ${KEY}, ${more} }
          scheduler: ${SCHEDULER}`;

const tokens = (group: string, point: string, fill: string, mode = "closed") => `
    - flow_control:
        quota_scheduler:
          selectors: [{ control_point: ${point}, agent_group: ${group} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 2 } }
            fill_amount: { constant_signal: { value: 1 } }
          rate_limiter: { ${KEY}, interval: ${fill}, on_failure: ${mode} }
          scheduler: ${SCHEDULER}`;

/** The same for the agents of each engine, which are a group. */
const policyOf = (group: Engine) => `circuit:
  evaluation_interval: 1s
  components:${slots(group, "one", 1)}${slots(group, "three", 3)}${slots(
    group,
    "brief",
    1,
    "max_inflight_duration: 2s",
  )}${MODES.map((mode) =>
    slots(group, `one-${mode}`, 1, `max_inflight_duration: 3600s, on_failure: ${mode}`),
  ).join("")}${tokens(group, "quick", "0.2s")}${tokens(group, "slow", "3600s")}${MODES.map((mode) =>
    tokens(group, `tokens-${mode}`, "5s", mode),
  ).join("")}
`;

const COMPONENTS = 11;

interface House {
  readonly redis: RedisServer;
  readonly agents: Readonly<Record<Engine, readonly SluiceChild[]>>;
  start(engine: Engine): SluiceChild;
}

async function house(t: TestContext): Promise<House> {
  const [{ endpoints }, redis] = await Promise.all([startEtcd(t), startRedis(t)]);
  const files = Object.fromEntries(ENGINES.map((engine) => [`${engine}.yaml`, policyOf(engine)]));
  const controller = startSluice(t, "controller", endpoints, ["--policies", folderOf(t, files)]);
  const start = (engine: Engine) =>
    startSluice(t, "agent", endpoints, [], {
      AGENT_INFO_AGENT_GROUP: engine,
      COUNTERS_ENGINE: engine,
      COUNTERS_PEERS_TIMEOUT: "5s",
      COUNTERS_REDIS_URL: redis.url,
      COUNTERS_REDIS_TIMEOUT: "2s",
      COUNTERS_REDIS_PROBE_INTERVAL: "100ms",
      DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
      DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
    });
  const agents = {
    local: [start("local")],
    peers: [start("peers"), start("peers")],
    redis: [start("redis"), start("redis")],
  };
  await listening(controller, ...Object.values(agents).flat());
  for (const engine of ENGINES) await ready(agents[engine], engine);
  return { redis, agents, start };
}

/** Waits until agents have the rules and their numbers, and count together. */
async function ready(agents: readonly SluiceChild[], engine: Engine): Promise<void> {
  for (const agent of agents) {
    await until(`${engine}: the rules are in force`, async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return body.includes(`${COMPONENTS} rules`);
    });
    await until(`${engine}: the numbers are there`, async () => {
      const user = `ready-${agent.address()}-${performance.now()}`;
      return (await begin(agent.address(), "slow", { user })).accepted;
    });
    if (engine !== "peers") continue;
    await until("all agents count", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/distcache/stats");
      const { members, joining } = JSON.parse(body);
      return members.length === agents.length && joining === false;
    });
  }
}

/** Flows that wait at an agent. */
async function waiting(agent: SluiceChild): Promise<number> {
  const sums = await counted(agent.address(), "sluice_scheduler_waiting_flows", "policy_name");
  return Object.values(sums).reduce((sum, count) => sum + count, 0);
}

/** The time that flows have spent in the queues of an agent, ms. */
async function queuedMs(agent: SluiceChild): Promise<number> {
  const sums = /^request_in_queue_duration_ms_sum\{.*\} (\S+)$/gm;
  return [...(await scraped(agent.address())).matchAll(sums)].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  );
}

/** Begins flows one after the other, each once the one before waits; `done` has the names of those that were answered. */
async function queueUp(
  agent: SluiceChild,
  point: string,
  user: string,
  flows: readonly (readonly [name: string, headers?: Readonly<Record<string, string>>])[],
) {
  const done: string[] = [];
  const answers: Promise<BegunFlow>[] = [];
  for (const [name, headers = {}] of flows) {
    const before = await waiting(agent);
    const answer = begin(agent.address(), point, { user, ...headers });
    void answer.then(() => done.push(name));
    answers.push(answer);
    await until(`${name} waits`, async () => (await waiting(agent)) === before + 1);
  }
  return { done, answers };
}

const first = (agents: readonly SluiceChild[]) => agents[0] ?? assert.fail();
const last = (agents: readonly SluiceChild[]) => agents.at(-1) ?? assert.fail();

const end = (agent: SluiceChild, point: string, { slots: held }: BegunFlow) =>
  endFlow(agent.address(), point, held);

test("schedulers over every counter engine", async (t) => {
  const { redis, agents, start } = await house(t);

  for (const engine of ENGINES) {
    const own = agents[engine];
    const [here, there] = [first(own), last(own)];

    await t.test(
      `${engine}: flows wait for the slot of a flow of another agent, in order, important ones first`,
      async () => {
        const holder = await begin(here.address(), "one", { user: "ann" });
        assert.equal(holder.accepted, true);
        const { done, answers } = await queueUp(there, "one", "ann", [
          ["first"],
          ["second"],
          ["third"],
          ["gold", { tier: "gold" }],
        ]);
        // Another key does not wait for this one.
        const other = await begin(there.address(), "one", { user: "bob" });
        assert.equal(other.accepted, true);
        assert.deepEqual(done, []);
        // Whoever is asked about keeps its turn.
        let held = holder;
        for (const [at, name] of ["first", "gold", "second", "third"].entries()) {
          assert.deepEqual(await end(here, "one", held), [true]);
          await until(`${name} passes`, () => done.length === at + 1);
          assert.equal(done[at], name, `${done}`);
          held = await (answers[["first", "second", "third", "gold"].indexOf(name)] ??
            assert.fail());
          assert.equal(held.accepted, true);
        }
        assert.deepEqual(await end(there, "one", held), [true]);
        assert.equal(await waiting(there), 0);
      },
    );

    await t.test(
      `${engine}: a large flow waits until it fits, and no smaller one overtakes it`,
      async () => {
        const ask = (cost: string) => begin(here.address(), "three", { user: "ann", cost });
        const held = [await ask("1"), await ask("1")];
        assert.ok(held.every(({ accepted }) => accepted));
        const { done, answers } = await queueUp(there, "three", "ann", [
          ["large", { cost: "2" }],
          ["small", { cost: "1" }],
        ]);
        assert.deepEqual(done, [], "one slot is free, and nobody takes it");
        await end(here, "three", held[0] ?? assert.fail());
        const large = await (answers[0] ?? assert.fail());
        assert.deepEqual([large.accepted, large.slots[0]?.tokens], [true, 2]);
        assert.deepEqual(done, ["large"], "1 and 2 are in flight");
        await end(there, "three", held[1] ?? assert.fail());
        assert.equal((await (answers[1] ?? assert.fail())).accepted, true);
      },
    );

    await t.test(
      `${engine}: a slot that nobody ends expires, and the next flow passes`,
      async () => {
        assert.equal((await begin(here.address(), "brief", { user: "ann" })).accepted, true);
        const next = await begin(there.address(), "brief", { user: "ann" });
        assert.equal(next.accepted, true);
      },
    );

    await t.test(
      `${engine}: tokens are granted, waited for in order, and refused where waiting is of no use`,
      async () => {
        const before = await queuedMs(there);
        const flows = Array.from({ length: 6 }, () =>
          begin(there.address(), "quick", { user: "ann" }),
        );
        assert.ok((await Promise.all(flows)).every(({ accepted }) => accepted));
        assert.ok((await queuedMs(there)) > before, "four of them had to wait");

        const ask = (headers = {}) => begin(there.address(), "slow", { user: "bob", ...headers });
        assert.equal((await ask({ cost: "3" })).accepted, false, "more than a bucket holds");
        assert.equal((await ask()).accepted, true);
        assert.equal((await ask()).accepted, true);
        assert.equal((await ask()).accepted, false, "an hour is longer than a minute");
        assert.equal(await waiting(there), 0);
      },
    );
  }

  for (const engine of ["peers", "redis"] as const) {
    await t.test(
      `${engine}: an agent that dies leaves its slots to expire, and flows that wait elsewhere pass then`,
      async () => {
        const mortal = start(engine);
        await listening(mortal);
        const all = [...agents[engine], mortal];
        await ready(all, engine);
        const users = Array.from({ length: 4 }, (_, at) => `mortal-${at}`);
        for (const user of users) {
          assert.equal((await begin(mortal.address(), "brief", { user })).accepted, true);
        }
        const { address } = last(agents[engine]);
        const flows = users.map((user) => begin(address(), "brief", { user }));
        mortal.kill("SIGKILL");
        await mortal.ended;
        assert.ok((await Promise.all(flows)).every(({ accepted }) => accepted));
        await ready(agents[engine], engine);
      },
    );
  }

  await t.test(
    "redis: on_failure answers flows that wait when Redis goes away, and nothing is left",
    async () => {
      const [here, there] = [first(agents.redis), last(agents.redis)];
      const held = new Map<string, BegunFlow>();
      const waits: { readonly point: string; readonly answer: Promise<BegunFlow> }[] = [];
      const points = ["one", "tokens"].flatMap((what) => MODES.map((mode) => `${what}-${mode}`));
      for (const point of points) {
        const flow = await begin(here.address(), point, { user: "ann" });
        assert.equal(flow.accepted, true, point);
        held.set(point, flow);
        if (point.startsWith("tokens")) await begin(here.address(), point, { user: "ann" });
        const { answers } = await queueUp(there, point, "ann", [["waits"]]);
        for (const answer of answers) waits.push({ point, answer });
      }
      await redis.freeze();
      for (const { point, answer } of waits) {
        // A queue of tokens asks again when there should be one.
        const { accepted } = await answer;
        assert.equal(accepted, !point.endsWith("closed"), point);
      }
      assert.equal(await waiting(there), 0);
      // New flows are answered in the same way, at once.
      assert.equal((await begin(there.address(), "one-closed", { user: "new" })).accepted, false);
      assert.equal((await begin(there.address(), "one-open", { user: "new" })).accepted, true);
      redis.thaw();
      for (const agent of [here, there]) {
        await until("Redis is asked again", async () => {
          const { body } = await call(agent.address(), "GET", "/v1/status/system/counters");
          return body.includes("Redis answers");
        });
      }
      for (const mode of MODES) {
        const point = `one-${mode}`;
        assert.deepEqual(await end(here, point, held.get(point) ?? assert.fail()), [true]);
        // Neither the flows that waited nor those of the outage have left a slot behind.
        const next = await begin(there.address(), point, { user: "ann" });
        assert.equal(next.accepted, true, point);
        assert.doesNotMatch(next.slots[0]?.request_id ?? "", /^local\//);
        assert.deepEqual(await end(here, point, next), [true]);
      }
      assert.equal(await waiting(there), 0);
    },
  );
});
