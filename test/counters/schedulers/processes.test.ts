// Schedulers of three `sluice agent` processes and a controller over a real etcd, at three times what their policy lets
// pass, with 80, 15 and 5 % of the load: the workloads of the whole group have shares in the order of their weights. How
// large the shares are depends on the machine; `shares.test.ts` asserts that in virtual time.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { describe, type TestContext, test } from "node:test";
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

/** Flows that passed, by workload and by agent. */
interface Counts {
  readonly passed: Record<Name, number>;
  readonly at: number[];
}

const none = (): Counts => ({ passed: { high: 0, middle: 0, low: 0 }, at: SPLIT.map(() => 0) });

const totalOf = ({ passed }: Counts) => NAMES.reduce((sum, name) => sum + passed[name], 0);

class Traffic {
  readonly #client = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  readonly #chance = seededChance(5);
  readonly #agents: readonly SluiceChild[];
  readonly #controlPoint: string;
  readonly #timer: NodeJS.Timeout;
  readonly #startedAt = performance.now();
  readonly #all = none();
  #since = none();
  #sent = 0;
  #answered = 0;
  readonly #faults: string[] = [];

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
    t.after(() => {
      clearInterval(this.#timer);
      this.#client.destroy();
    });
  }

  #send(): void {
    this.#sent += 1;
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
    sent.on("error", ({ message }) => this.#faults.push(message));
    sent.on("response", (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      response.on("end", () => {
        this.#answered += 1;
        if (response.statusCode !== 200) this.#faults.push(`status ${response.statusCode}`);
        if (!body.includes("DECISION_TYPE_ACCEPTED")) return;
        for (const counts of [this.#all, this.#since]) {
          counts.passed[work] += 1;
          counts.at[at] = (counts.at[at] ?? 0) + 1;
        }
      });
    });
    sent.end(JSON.stringify({ control_point: this.#controlPoint, labels: { work } }));
  }

  /** Flows that pass from when many wait at the busiest agent until so many have. Ends the traffic. */
  async measured(enough: number): Promise<Counts> {
    const busiest = this.#agents[0] ?? assert.fail();
    // More than a full bucket, which would serve a shorter queue completely and in any order.
    const full = async () => (await waitingAt(busiest, this.#controlPoint)) > LIMIT;
    await until("a queue is longer than a bucket", full);
    const counts = none();
    this.#since = counts;
    await until(`${enough} passed`, () => totalOf(counts) >= enough);
    this.#since = none();
    clearInterval(this.#timer);
    await until("all are answered", () => this.#answered + this.#faults.length >= this.#sent);
    assert.deepEqual([this.#faults, this.#answered], [[], this.#sent], "nothing is lost");
    return counts;
  }

  /** All flows that have passed, and the most that a quota lets through in that time. */
  get total() {
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    return { passed: totalOf(this.#all), most: LIMIT + LIMIT * seconds };
  }
}

/** Flows that wait at the scheduler of the policy that is named like its control point. */
async function waitingAt(agent: SluiceChild, policyName: string): Promise<number> {
  const { body } = await call(agent.address(), "GET", "/metrics");
  const gauge = body
    .split("\n")
    .find(
      (line) =>
        line.startsWith("sluice_scheduler_waiting_flows{") &&
        line.includes(`policy_name="${policyName}"`),
    );
  return Number(gauge?.split(" ").at(-1) ?? 0);
}

function assertShares(t: TestContext, what: string, counts: Counts): void {
  const { passed, at } = counts;
  const total = totalOf(counts);
  const shares = NAMES.map((name) => (passed[name] / total / (WEIGHTS[name] / 7)).toFixed(2));
  const seen = `${what}: ${JSON.stringify(passed)}, parts of their shares ${shares}, by agent ${at}`;
  t.diagnostic(seen);
  assert.ok(passed.high > passed.middle && passed.middle > passed.low, seen);
  for (const count of at) assert.ok(count > 0, `an agent got nothing: ${seen}`);
}

async function assertQuota(t: TestContext, what: string, traffic: Traffic): Promise<void> {
  assertShares(t, what, await traffic.measured(5 * LIMIT));
  const { passed, most } = traffic.total;
  t.diagnostic(`${what}: ${passed} passed, of at most ${Math.floor(most)}`);
  assert.ok(passed <= most, `${what}: ${passed} passed, of at most ${most}`);
}

describe("three agents at three times their limit", () => {
  test("a quota over Redis", async (t) => {
    const redis = await startRedis(t);
    const env = { COUNTERS_ENGINE: "redis", COUNTERS_REDIS_URL: redis.url };
    const agents = await fleet(
      t,
      { "quota.yaml": QUOTA },
      { ...env, COUNTERS_REDIS_TIMEOUT: "5s" },
    );
    await assertQuota(t, "Redis", new Traffic(t, agents, "quota"));
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
    await assertQuota(t, "peers", new Traffic(t, agents, "quota"));
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
