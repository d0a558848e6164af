// An agent whose shared counters are in a real Redis, while that Redis fails in every way: what callers are told, what
// the log and the metrics say, and that it goes on when Redis is back.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type RedisServer, startRedis } from "../../kit/servers/redis.ts";
import { passes } from "../../kit/sluice/check.ts";
import { counted, scraped } from "../../kit/sluice/scrape.ts";
import { type StandaloneProcess, standaloneProcess } from "../../kit/sluice/standalone.ts";
import { until } from "../../kit/until.ts";

const MODES = ["open", "closed", "local", "last_known"] as const;
type Mode = (typeof MODES)[number];

const CAPACITY = 3;

/** A limiter of each failure mode at a control point of its own; buckets never fill. */
const POLICY = `circuit:
  components:${MODES.map(
    (mode) => `
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${mode} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user, on_failure: ${mode} }`,
  ).join("")}
`;

/** Number of accepted checks, of one more than the capacity, by which an agent answers while Redis is away. */
const ALONE: Readonly<Record<Mode, number>> = {
  open: CAPACITY + 1,
  closed: 0,
  local: CAPACITY,
  last_known: CAPACITY,
};

/** Rights that a user of an access control list needs, according to the documentation. */
const RIGHTS =
  "~sluice:* -@all +hello +auth +ping +info +eval +evalsha +get +set +time +del +pexpire " +
  "+zadd +zcard +zcount +zrangebyscore +zrem +zremrangebyscore +zscore";

const REDIS_ENV = {
  SVC_AGENT_COUNTERS_ENGINE: "redis",
  SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "2s",
  SVC_AGENT_COUNTERS_REDIS_PROBE_INTERVAL: "100ms",
};

function agent(
  test: TestContext,
  { url }: Pick<RedisServer, "url">,
  env: Readonly<Record<string, string>> = {},
): Promise<StandaloneProcess> {
  return standaloneProcess(test, {
    policies: { "limits.yaml": POLICY },
    env: { ...REDIS_ENV, SVC_AGENT_COUNTERS_REDIS_URL: url, ...env },
  });
}

/** The number of checks that pass, of one more than the capacity, for a user who was not seen before. */
async function admitted({ address }: StandaloneProcess, mode: Mode, user: string) {
  let count = 0;
  for (let n = 0; n <= CAPACITY; n++) if (await passes(address, mode, { user })) count++;
  return count;
}

async function isUp({ address }: StandaloneProcess): Promise<boolean> {
  return /^sluice_counter_engine_up{engine="redis"} 1$/m.test(await scraped(address));
}

const transitions = ({ address }: StandaloneProcess) =>
  counted(address, "sluice_counter_engine_transitions_total", "state");

function lines({ child }: StandaloneProcess, text: string): number {
  return (child.out() + child.err()).split("\n").filter((line) => line.includes(text)).length;
}

/** Each mode answers as it should, with one transition, one log line, and a ready agent; then all is as before. */
async function survives(
  own: StandaloneProcess,
  name: string,
  fail: () => Promise<unknown>,
  repair: () => Promise<unknown>,
): Promise<void> {
  const before = await transitions(own);
  const linesBefore = [lines(own, "Redis is away"), lines(own, "Redis answers again")];
  assert.equal(await admitted(own, "closed", `before ${name}`), CAPACITY);
  await fail();
  for (const mode of MODES) {
    assert.equal(await admitted(own, mode, `during ${name}`), ALONE[mode], mode);
  }
  assert.equal(await isUp(own), false);
  const ready = await fetch(`http://${own.address}/v1/status/system/readiness`);
  assert.equal(ready.status, 200, "an outage of Redis takes no agent out of service");
  await ready.text();
  await repair();
  await until("Redis is asked again", () => isUp(own));
  for (const mode of MODES) assert.equal(await admitted(own, mode, `after ${name}`), CAPACITY);
  const after = await transitions(own);
  assert.deepEqual(
    [(after["away"] ?? 0) - (before["away"] ?? 0), (after["back"] ?? 0) - (before["back"] ?? 0)],
    [1, 1],
  );
  const linesAfter = [lines(own, "Redis is away"), lines(own, "Redis answers again")];
  assert.deepEqual(
    linesAfter,
    linesBefore.map((count) => count + 1),
  );
}

test("Redis is killed, frozen and out of memory, and its scripts are flushed", async (t) => {
  const redis = await startRedis(t);
  const own = await agent(t, redis);
  for (const mode of MODES) assert.equal(await admitted(own, mode, "at first"), CAPACITY);

  await t.test("killed", () => survives(own, "kill", redis.kill, redis.restart));
  await t.test("frozen", () => survives(own, "freeze", redis.freeze, async () => redis.thaw()));
  await t.test(
    "out of memory: keys that exist are counted as before, and no outage begins",
    async () => {
      const before = await transitions(own);
      assert.equal(await passes(own.address, "closed", { user: "known" }), true);
      await redis.command("CONFIG", "SET", "maxmemory", "1");
      assert.equal(await admitted(own, "closed", "known"), CAPACITY - 1);
      for (const mode of MODES) assert.equal(await admitted(own, mode, "new"), ALONE[mode], mode);
      await redis.command("CONFIG", "SET", "maxmemory", "0");
      for (const mode of MODES) assert.equal(await admitted(own, mode, "later"), CAPACITY, mode);
      assert.deepEqual(await transitions(own), before);
    },
  );
  await t.test("scripts flushed: nobody notices", async () => {
    const before = await transitions(own);
    assert.equal(await passes(own.address, "closed", { user: "flush" }), true);
    await redis.command("SCRIPT", "FLUSH");
    assert.equal(await admitted(own, "closed", "flush"), CAPACITY - 1);
    assert.deepEqual(await transitions(own), before);
  });
});

test("a frozen Redis costs callers one time limit, not one each", async (t) => {
  const redis = await startRedis(t);
  const own = await agent(t, redis, { SVC_AGENT_COUNTERS_REDIS_PROBE_INTERVAL: "1h" });
  await redis.freeze();
  assert.equal(await passes(own.address, "closed", { user: "a" }), false);
  for (let n = 0; n < 20; n++) assert.equal(await passes(own.address, "open"), true);
  const results = await counted(own.address, "sluice_counter_requests_total", "result");
  assert.deepEqual(
    [results["failed"], results["skipped"]],
    [1, 0],
    "flows without a user ask nobody",
  );
  for (let n = 0; n < 20; n++) assert.equal(await passes(own.address, "open", { user: "a" }), true);
  const later = await counted(own.address, "sluice_counter_requests_total", "result");
  assert.deepEqual([later["failed"], later["skipped"]], [1, 20]);
});

test("an agent starts while Redis is away, says so, and finds it later", async (t) => {
  const redis = await startRedis(t);
  await redis.kill();
  const own = await agent(t, redis);
  assert.equal(await isUp(own), false);
  assert.equal(lines(own, "Redis is away"), 1);
  assert.equal(await admitted(own, "local", "a"), CAPACITY);
  await redis.restart();
  await until("Redis is asked", () => isUp(own));
  assert.equal(await admitted(own, "closed", "b"), CAPACITY);
});

test("a wrong password, or none, is refused loudly at start, without repeating it", async (t) => {
  const password = "correct-horse";
  const redis = await startRedis(t, { settings: [`requirepass ${password}`], password });
  for (const [given, env] of [
    ["wrong", { SVC_AGENT_COUNTERS_REDIS_PASSWORD: "battery-staple" }],
    ["none", {}],
  ] as const) {
    await assert.rejects(agent(t, redis, env), (error: Error) => {
      assert.match(error.message, /counters\.redis: wanted a server that accepts these settings/);
      assert.match(error.message, given === "wrong" ? /WRONGPASS/ : /NOAUTH/);
      assert.match(error.message, /ended with 64\b/, "the configuration is wrong");
      assert.doesNotMatch(error.message, /battery-staple|correct-horse/);
      return true;
    });
  }
  const own = await agent(t, redis, { SVC_AGENT_COUNTERS_REDIS_PASSWORD: password });
  assert.equal(await admitted(own, "closed", "a"), CAPACITY);
});

test("a password that is changed while the agent runs is said to be refused, once and with its key", async (t) => {
  const redis = await startRedis(t, { settings: [`user counters on >secret ${RIGHTS}`] });
  const own = await agent(t, redis, {
    SVC_AGENT_COUNTERS_REDIS_USERNAME: "counters",
    SVC_AGENT_COUNTERS_REDIS_PASSWORD: "secret",
  });
  assert.equal(await admitted(own, "closed", "a"), CAPACITY);
  await redis.command("ACL", "SETUSER", "counters", "resetpass", ">changed");
  await redis.command("CLIENT", "KILL", "USER", "counters");
  const refused = "does not accept counters.redis.password for the user";
  await until("the refusal is said", () => lines(own, refused) > 0);
  const attempts = async () => {
    const log = (await redis.command("ACL", "LOG")) as readonly (readonly unknown[])[];
    const counts = log.map((entry) => Number(entry[entry.indexOf("count") + 1]));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  const before = await attempts();
  await until("more connections were refused", async () => (await attempts()) > before + 2);
  assert.equal(lines(own, refused), 1);
  assert.equal(lines(own, "Redis is away"), 1);
  const status = await fetch(`http://${own.address}/v1/status/system/counters`);
  assert.match(await status.text(), new RegExp(refused));
  await redis.command("ACL", "SETUSER", "counters", "resetpass", ">secret");
  await until("Redis is asked again", () => isUp(own));
  assert.deepEqual([lines(own, refused), lines(own, "Redis answers again")], [1, 1]);
});

test("a user of an access control list needs only what the documents say", async (t) => {
  const users = [
    `user counters on >secret ${RIGHTS}`,
    "user reader on >secret ~* -@all +@read +hello +info",
  ];
  const redis = await startRedis(t, { settings: users });
  const as = (name: string) => ({
    SVC_AGENT_COUNTERS_REDIS_USERNAME: name,
    SVC_AGENT_COUNTERS_REDIS_PASSWORD: "secret",
  });
  const own = await agent(t, redis, as("counters"));
  assert.equal(await admitted(own, "closed", "a"), CAPACITY);
  await assert.rejects(agent(t, redis, as("reader")), /NOPERM/);
});

test("counts are in the database of the URL, or the agent does not start", async (t) => {
  const users = [
    `user narrow on >secret ${RIGHTS}`,
    `user counters on >secret ${RIGHTS} +select`,
    "databases 4",
  ];
  const redis = await startRedis(t, { settings: users });
  const as = (name: string) => ({
    SVC_AGENT_COUNTERS_REDIS_USERNAME: name,
    SVC_AGENT_COUNTERS_REDIS_PASSWORD: "secret",
  });
  const database = (number: number) => ({ url: `${redis.url}/${number}` });
  const refused = /wanted a server that accepts these settings.*SELECT.*DB index is out of range/s;
  await assert.rejects(agent(t, database(4)), refused);
  await assert.rejects(agent(t, database(3), as("narrow")), /SELECT.*NOPERM/s);
  assert.equal(await redis.command("DBSIZE"), 0);
  const own = await agent(t, database(3), as("counters"));
  assert.equal(await admitted(own, "closed", "a"), CAPACITY);
  assert.equal(await redis.command("DBSIZE"), 0);
  assert.match(String(await redis.command("INFO", "keyspace")), /^db3:keys=/m);

  // A right that is taken away later: the next connection must not count in database 0.
  await redis.command("ACL", "SETUSER", "counters", "-select");
  await redis.command("CLIENT", "KILL", "USER", "counters");
  await until("the connection is lost", async () => !(await isUp(own)));
  await until("connections are tried anew", async () => {
    const log = String(await redis.command("ACL", "LOG"));
    return log.split("counters").length > 2;
  });
  assert.equal(await isUp(own), false);
  assert.equal(await redis.command("DBSIZE"), 0);
  await redis.command("ACL", "SETUSER", "counters", "+select");
  await until("Redis is asked again", () => isUp(own));
  assert.equal(await redis.command("DBSIZE"), 0);
});

test("a server that is no cluster is refused at start where one is configured", async (t) => {
  const redis = await startRedis(t);
  const refused = /wanted a server that accepts these settings.*cluster support disabled/s;
  // An agent to which the server answers too late starts nevertheless, and keeps trying.
  const attempts = async () => {
    for (let n = 0; n < 5; n++) {
      const late = await agent(t, redis, { SVC_AGENT_COUNTERS_REDIS_CLUSTER: "true" });
      assert.equal(await isUp(late), false);
    }
  };
  await assert.rejects(attempts(), refused);
});
