// Schedulers of three `sluice agent` processes and a controller over a real etcd, at three times what their policy lets
// pass, with 80, 15 and 5 % of the load: the workloads of the whole group have the shares of their weights.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { seededChance } from "#base/chance.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { call } from "../../kit/sluice/check.ts";
import { until } from "../../kit/until.ts";

const WEIGHTS = { high: 4, middle: 2, low: 1 } as const;
type Name = keyof typeof WEIGHTS;
const NAMES = Object.keys(WEIGHTS) as Name[];

/** Flows per second that the quota lets through. */
const LIMIT = 60;
/** Flows per second that arrive: three times as many, or of which the load scheduler lets a third through. */
const OFFERED = 3 * LIMIT;
/** Agents by their parts of the load: the first up to 80 % of it, and so on. */
const SPLIT = [0.8, 0.95, 1] as const;

const SCHEDULER = JSON.stringify({
  workloads: NAMES.map((name) => ({
    name,
    label_matcher: { match_labels: { work: name } },
    parameters: { priority: WEIGHTS[name], queue_timeout: "2s" },
  })),
});

const policy = (component: string) => `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
${component}`;

const QUOTA = policy(`        quota_scheduler:
          selectors: [{ control_point: quota }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${LIMIT} } }
            fill_amount: { constant_signal: { value: ${LIMIT} } }
          rate_limiter: { interval: 1s, on_failure: closed }
          scheduler: ${SCHEDULER}
`);

const LOAD = policy(`        load_scheduler:
          in_ports: { load_multiplier: { constant_signal: { value: 0.3333333 } } }
          parameters:
            selectors: [{ control_point: load }]
            scheduler: ${SCHEDULER}
`);

/** Three agents with the policies in force, and their numbers. */
async function fleet(
  t: TestContext,
  policies: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>>,
): Promise<readonly SluiceChild[]> {
  const { endpoints } = await startEtcd(t);
  const folder = folderOf(t, policies);
  const controller = startSluice(t, "controller", endpoints, ["--policies", folder]);
  const agents = SPLIT.map(() => startSluice(t, "agent", endpoints, [], env));
  await listening(controller, ...agents);
  const rules = Object.keys(policies).length;
  for (const agent of agents) {
    await until("the agent has the policies", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return body.includes(`${rules} rule`);
    });
    // Until its numbers have come, the quota refuses, as `closed` says.
    await until("the agent has the numbers", async () => {
      const { body } = await call(agent.address(), "POST", "/v1/flowcontrol/check", {
        control_point: "quota",
      });
      return body.includes("DECISION_TYPE_ACCEPTED");
    });
  }
  return agents;
}

/** Flows that passed, by workload, and the checks that each agent got. */
interface Counts {
  readonly passed: Record<Name, number>;
  readonly at: number[];
  failed: number;
}

const none = (): Counts => ({
  passed: { high: 0, middle: 0, low: 0 },
  at: SPLIT.map(() => 0),
  failed: 0,
});

class Traffic {
  readonly #client = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  readonly #chance = seededChance(5);
  readonly #agents: readonly SluiceChild[];
  readonly #controlPoint: string;
  readonly #timer: NodeJS.Timeout;
  counts = none();

  constructor(t: TestContext, agents: readonly SluiceChild[], controlPoint: string) {
    this.#agents = agents;
    this.#controlPoint = controlPoint;
    let owed = 0;
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      owed += ((now - last) * OFFERED) / 1_000;
      last = now;
      for (; owed >= 1; owed--) this.#send();
    }, 10);
    t.after(() => this.stop());
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#client.destroy();
  }

  #send(): void {
    const drawn = this.#chance();
    const at = SPLIT.findIndex((end) => drawn < end);
    const work = NAMES[Math.floor(this.#chance() * NAMES.length)] ?? "low";
    const [host, port] = this.#agents[at]?.address().split(":") ?? [];
    const sent = request({
      host,
      port,
      method: "POST",
      path: "/v1/flowcontrol/check",
      headers: { "content-type": "application/json" },
      agent: this.#client,
    });
    sent.on("error", () => {
      this.counts.failed += 1;
    });
    sent.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      response.on("end", () => {
        if (!body.includes("DECISION_TYPE_ACCEPTED")) return;
        this.counts.passed[work] += 1;
        this.counts.at[at] = (this.counts.at[at] ?? 0) + 1;
      });
    });
    sent.end(JSON.stringify({ control_point: this.#controlPoint, labels: { work } }));
  }

  /** What passes until so many have, once the queues are full. */
  async measured(enough: number): Promise<Counts> {
    await sleep(3_000);
    this.counts = none();
    const total = () => NAMES.reduce((sum, name) => sum + this.counts.passed[name], 0);
    await until(`${enough} passed`, () => total() >= enough);
    this.stop();
    return this.counts;
  }
}

function assertShares(t: TestContext, what: string, { passed, at }: Counts): void {
  const total = NAMES.reduce((sum, name) => sum + passed[name], 0);
  t.diagnostic(`${what}: ${JSON.stringify(passed)}, by agent ${at}`);
  for (const name of NAMES) {
    const share = passed[name] / total / (WEIGHTS[name] / 7);
    assert.ok(Math.abs(share - 1) < 0.15, `${what}: ${name} got ${share} of its share`);
  }
  for (const count of at) assert.ok(count > 0, `${what}: an agent got nothing`);
}

describe("three agents at three times their limit", { concurrency: true }, () => {
  test("a quota over Redis", async (t) => {
    const redis = await startRedis(t);
    const env = { COUNTERS_ENGINE: "redis", COUNTERS_REDIS_URL: redis.url };
    const agents = await fleet(
      t,
      { "quota.yaml": QUOTA },
      { ...env, COUNTERS_REDIS_TIMEOUT: "5s" },
    );
    assertShares(t, "Redis", await new Traffic(t, agents, "quota").measured(5 * LIMIT));
  });

  test("a quota over peers, and a load scheduler", async (t) => {
    const agents = await fleet(
      t,
      { "quota.yaml": QUOTA, "load.yaml": LOAD },
      {
        COUNTERS_ENGINE: "peers",
        COUNTERS_PEERS_TIMEOUT: "5s",
        DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
        DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
      },
    );
    for (const agent of agents) {
      await until("all agents count", async () => {
        const { body } = await call(agent.address(), "GET", "/v1/distcache/stats");
        const { members, joining } = JSON.parse(body);
        return members.length === agents.length && joining === false;
      });
    }
    const load = new Traffic(t, agents, "load");
    assertShares(t, "peers", await new Traffic(t, agents, "quota").measured(5 * LIMIT));
    // It limits nothing before it has measured thirty whole seconds.
    await until(
      "the load is limited",
      async () => {
        for (const agent of agents) {
          const { body } = await call(agent.address(), "GET", "/metrics");
          const rate = /^token_bucket_fill_rate\{.*\} (\S+)$/m.exec(body)?.[1];
          if (!(Number(rate) > 0)) return false;
        }
        return true;
      },
      60_000,
    );
    assertShares(t, "load", await load.measured(5 * LIMIT));
  });
});
