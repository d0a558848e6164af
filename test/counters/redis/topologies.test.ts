// Counters in the other forms of Redis: a master that Sentinels watch, a cluster, and a server that speaks only TLS.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { freePort } from "../../kit/free-port.ts";
import {
  type RedisServer,
  startRedis,
  startRedisCluster,
  startRedisWithSentinels,
  startTlsRedis,
} from "../../kit/servers/redis.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { passes } from "../../kit/sluice/check.ts";
import { scraped } from "../../kit/sluice/scrape.ts";
import { type StandaloneProcess, standaloneProcess } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

/** Two per user, and no more ever. */
const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 2 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user, on_failure: closed }
`;

function agent(test: TestContext, env: Readonly<Record<string, string>>) {
  const redis = Object.entries(env).map(([name, value]) => [
    `SVC_AGENT_COUNTERS_REDIS_${name}`,
    value,
  ]);
  return standaloneProcess(test, {
    policies: { "limits.yaml": POLICY },
    env: {
      SVC_AGENT_COUNTERS_ENGINE: "redis",
      SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "2s",
      SVC_AGENT_COUNTERS_REDIS_PROBE_INTERVAL: "100ms",
      ...Object.fromEntries(redis),
    },
  });
}

const isUp = async ({ address }: StandaloneProcess) =>
  /^sluice_counter_engine_up{engine="redis"} 1$/m.test(await scraped(address));

/** The number of checks that pass, of four at two agents in turn. */
async function admitted(agents: readonly StandaloneProcess[], user: string): Promise<number> {
  let count = 0;
  for (let n = 0; n < 4; n++) {
    const { address } = agents[n % agents.length] ?? { address: "" };
    if (await passes(address, "shop", { user })) count++;
  }
  return count;
}

for (const [name, fail] of [
  ["killed", (master: RedisServer) => master.kill()],
  ["frozen", (master: RedisServer) => master.freeze()],
] as const) {
  test(`Sentinel: the master is ${name}, and the replica goes on with its counts`, async (t) => {
    const { master, replica, env } = await startRedisWithSentinels(t);
    const agents = [await agent(t, env), await agent(t, env)];
    assert.equal(await passes(agents[0]?.address ?? "", "shop", { user: "early" }), true);
    assert.equal(await admitted(agents, "before"), 2);
    await until(
      "the replica has the counts",
      async () => (await replica.command("DBSIZE")) === (await master.command("DBSIZE")),
    );
    await fail(master);
    assert.equal(await admitted(agents, "during"), 0, "on_failure is closed");
    for (const each of agents) await until("the new master is asked", () => isUp(each));
    assert.match(String(await replica.command("ROLE")), /^master/);
    assert.equal(await admitted(agents, "before"), 0, "what was taken stays taken");
    assert.equal(await admitted(agents, "early"), 1);
    assert.equal(await admitted(agents, "after"), 2);
    master.thaw();
  });
}

test("a cluster: keys of all nodes, whatever their characters, and a node that dies", async (t) => {
  const nodes = await startRedisCluster(t);
  const [first, second] = nodes;
  const env = {
    URL: first?.url ?? "",
    CLUSTER: "true",
    NODES: JSON.stringify([`127.0.0.1:${second?.port}`]),
  };
  const agents = [await agent(t, env), await agent(t, env)];
  for (const user of ["a", "b", "c", "d", "e", "f", "{x}1", "}x{", "%7B"]) {
    assert.equal(await admitted(agents, user), 2, user);
  }
  for (const node of nodes) assert.notEqual(await node.command("DBSIZE"), 0);
  await nodes[2]?.kill();
  let refused = 0;
  for (let n = 0; n < 12; n++) refused += (await admitted(agents, `user ${n}`)) === 0 ? 1 : 0;
  assert.ok(refused > 0, "keys of the dead node are undecided");
});

test("TLS with certificates of both sides; without them the agent does not start", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("redis");
  const client = ca.issue("agent");
  const env = {
    URL: `rediss://${await startTlsRedis(t, server, ca.certFile)}`,
    TLS_CA_FILE: ca.certFile,
    TLS_CERT_FILE: client.certFile,
    TLS_KEY_FILE: client.keyFile,
  };
  const own = await agent(t, env);
  assert.equal(await admitted([own], "a"), 2);
  const { TLS_CA_FILE: _, ...distrustful } = env;
  await assert.rejects(agent(t, distrustful), /counters\.redis: wanted .*certificate/);
});

test("counters.redis.tls.insecure_skip_verify accepts a certificate of an unknown authority", async (t) => {
  const server = authority(temporaryFolder(t), "ca").issue("redis");
  const env = { URL: `rediss://${await startTlsRedis(t, server)}` };
  assert.equal(
    await admitted([await agent(t, { ...env, TLS_INSECURE_SKIP_VERIFY: "true" })], "a"),
    2,
  );
  await assert.rejects(agent(t, env), /counters\.redis: wanted .*certificate/);
});

test("counters.redis.sentinel.username and password are for the Sentinels; namespace begins every key", async (t) => {
  const master = await startRedis(t);
  const settings = [
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    "user default off",
    "user ann on >hunter2 allchannels +@all",
  ];
  const sentinel = await startRedis(t, { settings, sentinel: true });
  const env = {
    SENTINEL_MASTER: "main",
    SENTINEL_ADDRESSES: `[127.0.0.1:${sentinel.port}]`,
    SENTINEL_USERNAME: "ann",
    NAMESPACE: "blue",
  };
  const own = await agent(t, { ...env, SENTINEL_PASSWORD: "hunter2" });
  await until("the master is found", () => isUp(own));
  assert.equal(await admitted([own], "a"), 2);
  const keys = (await master.command("KEYS", "*")) as readonly string[];
  assert.ok(keys.length > 0);
  for (const key of keys) assert.match(key, /^\{?blue/);
  await assert.rejects(
    agent(t, { ...env, SENTINEL_PASSWORD: "wrong" }),
    /WRONGPASS|counters\.redis/,
  );
});

test("no port that tests give away is the bus of a node of a cluster, 10 000 above its own", async () => {
  const ports = await Promise.all(Array.from({ length: 200 }, freePort));
  assert.equal(new Set(ports).size, ports.length);
  assert.ok(Math.max(...ports) < Math.min(...ports) + 10_000, `${ports}`);
});
