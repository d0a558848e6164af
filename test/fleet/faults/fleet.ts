// Real processes of a fleet under one etcd: controllers, agents that share limits, and a Redis where they count there.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Ending } from "../../kit/ending.ts";
import { type Etcd, type EtcdOptions, startEtcd } from "../../kit/etcd/cluster.ts";
import { type Proxy as EtcdProxy, startProxy } from "../../kit/etcd/proxy.ts";
import { folderOf } from "../../kit/folder.ts";
import { type RedisServer, startRedis } from "../../kit/servers/redis.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { begin, call, endFlow, passes } from "../../kit/sluice/check.ts";
import { until } from "../../kit/until.ts";
import { closedAt, LIMIT_NAMES, LIMITS, POLICY } from "./limits.ts";

type Env = Readonly<Record<string, string>>;

export interface FleetOptions {
  readonly engine: "peers" | "redis";
  /** Three unless given. */
  readonly agents?: number;
  /** One unless given. */
  readonly controllers?: number;
  readonly etcd?: EtcdOptions;
  /** Settings of agents without their prefix. */
  readonly env?: Env;
  /** Agents and controllers reach each member of etcd through a proxy. */
  readonly proxied?: boolean;
  /** Called when etcd runs, before anything else starts. Returns settings of agents and controllers. */
  readonly prepare?: (etcd: Etcd) => Promise<Env>;
  /** Starts the Redis of agents that count in it. Returns settings of agents, and the server that rows make fail. */
  readonly redis?: (test: Ending) => Promise<{ readonly env: Env; readonly server: RedisServer }>;
}

export interface Fleet {
  readonly test: Ending;
  readonly etcd: Etcd;
  /** In front of each member of etcd, where `proxied` is set, and those that a row adds. */
  readonly proxies: EtcdProxy[];
  readonly redis: RedisServer | undefined;
  readonly controllers: readonly SluiceChild[];
  /** Those that callers know. A test takes away those that it ends. */
  readonly agents: SluiceChild[];
  /** Starts an agent, which callers know when it counts with all others. `variables` are not settings of Sluice. */
  join(env?: Env, variables?: Env): Promise<SluiceChild>;
  /** Starts a process that nobody waits for and that callers never know. */
  launch(name: "agent" | "controller", env?: Env, variables?: Env): SluiceChild;
  /** Waits until every agent decides by every limit, and all count together. */
  ready(): Promise<void>;
  /** Adds a policy, and waits until every agent applies it. */
  edit(): Promise<void>;
  /** Writes a policy, and returns what waits until every agent applies it. */
  write(): () => Promise<void>;
  /** Kills a process; if it is an agent, callers still know it. */
  kill(one: SluiceChild | undefined): Promise<void>;
  /** Ends a process in order. */
  stop(one: SluiceChild | undefined): Promise<void>;
  /** Fails if a process has ended that the test did not end. */
  alive(): void;
}

/** Long, so that a machine that is busy is no agent that is away. Rows in which one is away set it. */
const PATIENT = "5s";

export async function startFleet(test: Ending, options: FleetOptions): Promise<Fleet> {
  const { engine, proxied = false, env = {}, prepare } = options;
  const etcd = await startEtcd(test, options.etcd);
  const everywhere = (await prepare?.(etcd)) ?? {};
  const proxies: EtcdProxy[] = [];
  if (proxied) for (const each of etcd.endpoints) proxies.push(await startProxy(test, each));
  const endpoints = proxied ? proxies.map(({ endpoint }) => endpoint) : etcd.endpoints;
  const redis = engine === "redis" ? await (options.redis ?? oneRedis)(test) : undefined;
  const policies = folderOf(test, { "limits.yaml": POLICY });
  const ofAgents = {
    COUNTERS_ENGINE: engine,
    ...(engine === "peers"
      ? {
          COUNTERS_PEERS_TIMEOUT: PATIENT,
          DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
          DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
        }
      : { COUNTERS_REDIS_TIMEOUT: PATIENT, COUNTERS_REDIS_PROBE_INTERVAL: "100ms" }),
    ...redis?.env,
    ...everywhere,
    ...env,
  };
  const all = new Set<SluiceChild>();
  const launch: Fleet["launch"] = (name, own = {}, variables = {}) =>
    name === "agent"
      ? startSluice(test, name, endpoints, [], { ...ofAgents, ...own }, variables)
      : startSluice(test, name, endpoints, ["--policies", policies], { ...everywhere, ...own });
  const start = (...args: Parameters<Fleet["launch"]>) => {
    const one = launch(...args);
    all.add(one);
    return one;
  };
  const controllers = Array.from({ length: options.controllers ?? 1 }, () => start("controller"));
  const agents = Array.from({ length: options.agents ?? 3 }, () => start("agent"));
  await listening(...agents, ...controllers);
  let edits = 0;
  const fleet: Fleet = {
    test,
    etcd,
    proxies,
    redis: redis?.server,
    controllers,
    agents,
    launch,
    async join(own, variables) {
      const joined = start("agent", own, variables);
      await listening(joined);
      await decides(joined, agents.length + 1, engine);
      agents.push(joined);
      return joined;
    },
    async ready() {
      for (const each of agents) await decides(each, agents.length, engine);
    },
    write() {
      const point = `edit-${edits++}`;
      writeFileSync(join(policies, `${point}.yaml`), closedAt(point));
      return async () => {
        for (const each of agents)
          await until(
            `an edit is in force: ${point}`,
            async () => !(await passes(each.address(), point)),
          );
      };
    },
    edit: () => fleet.write()(),
    async kill(one) {
      assert.ok(one);
      all.delete(one);
      one.kill("SIGKILL");
      await one.ended;
    },
    async stop(one) {
      assert.ok(one);
      all.delete(one);
      one.kill("SIGTERM");
      assert.equal(await one.ended, 0, one.printed());
    },
    alive() {
      for (const each of all) {
        assert.equal(each.process.exitCode, null, each.printed());
        assert.doesNotMatch(each.printed(), /"level":"fatal"/);
      }
    },
  };
  await fleet.ready();
  return fleet;
}

async function oneRedis(test: Ending) {
  const server = await startRedis(test);
  return { server, env: { COUNTERS_REDIS_URL: server.url } };
}

/** Waits until an agent has the rules and numbers of every limit and counts with all `members`. */
async function decides(agent: SluiceChild, members: number, engine: FleetOptions["engine"]) {
  const address = agent.address();
  if (engine === "peers") await countTogether([agent], members);
  for (const point of LIMIT_NAMES) {
    // A user of its own, who takes nothing from those of the load.
    const decided = async () => {
      const user = `ready-${address}-${performance.now()}`;
      const request = { method: "GET", path: "/", headers: { user } };
      if (LIMITS[point].kind === "slots") {
        const flow = await begin(address, point, { user }).catch(() => undefined);
        if (flow?.accepted !== true || flow.slots.length !== 1) return false;
        await endFlow(address, point, flow.slots);
        return true;
      }
      const body = { control_point: point, request };
      const reply = await call(address, "POST", "/v1/flowcontrol/checkhttp", body);
      if (reply.status !== 200) return false;
      const { limiter_decisions = [], decision_type } = JSON.parse(reply.body).check_response;
      const [first] = limiter_decisions;
      return (
        decision_type === "DECISION_TYPE_ACCEPTED" &&
        first !== undefined &&
        first.failure_mode === undefined
      );
    };
    await until(`the agent decides at ${point}`, decided);
  }
}

/** Waits until these agents have so many members, by default themselves. */
export async function countTogether(
  agents: readonly SluiceChild[],
  members = agents.length,
): Promise<void> {
  for (const each of agents)
    await until(`${members} agents count together`, async () => {
      const { members: known, joining } = await stats(each);
      return known.length === members && !joining;
    });
}

interface Stats {
  readonly members: readonly { readonly address: string }[];
  readonly joining: boolean;
}

export async function stats(agent: SluiceChild): Promise<Stats> {
  const { status, body } = await call(agent.address(), "GET", "/v1/distcache/stats");
  assert.equal(status, 200, body);
  return JSON.parse(body);
}

/** Body of `/v1/status/system/readiness`, which must say ready. */
export async function readiness(own: SluiceChild): Promise<string> {
  const { status, body } = await call(own.address(), "GET", "/v1/status/system/readiness");
  assert.equal(status, 200, body);
  return body;
}

/** Waits until all of them, which stay ready, say that they do without something. */
export async function degraded(
  all: readonly SluiceChild[],
  what = "degraded: etcd at ",
): Promise<void> {
  for (const each of all)
    await until(`it says ${what}`, async () => (await readiness(each)).includes(what));
}

export async function recovered(all: readonly SluiceChild[]): Promise<void> {
  for (const each of all)
    await until("nothing is degraded", async () => !(await readiness(each)).includes("degraded"));
}
