// A client that invents a label value with each request: it neither fills the Redis in which agents count, nor takes the
// limits of others along.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { startRedis } from "../kit/servers/redis.ts";
import { passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";

/** The smallest number that the configuration takes. */
const MAX_KEYS = 1_024;
const INVENTED = 3_000;
const AT_ONCE = 50;
const CAPACITY = 3;

/** Buckets that take an hour for a token. */
const POLICY = `circuit:
  components:${["attacked", "other"]
    .map(
      (point) => `
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${point} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 3600s, limit_by_label_key: http.request.header.user, on_failure: local }`,
    )
    .join("")}
`;

async function redisAndAgent(t: TestContext) {
  const redis = await startRedis(t);
  const { address } = await standaloneProcess(t, {
    policies: { "limits.yaml": POLICY },
    env: {
      SVC_AGENT_COUNTERS_ENGINE: "redis",
      SVC_AGENT_COUNTERS_REDIS_URL: redis.url,
      SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "10s",
      SVC_AGENT_FLOW_CONTROL_MAX_KEYS: String(MAX_KEYS),
    },
  });
  const admitted = async (point: string, user: string, attempts = CAPACITY + 1) => {
    let count = 0;
    for (let at = 0; at < attempts; at++) if (await passes(address, point, { user })) count++;
    return count;
  };
  return { redis, address, admitted };
}

test("invented label values create no more keys than an agent may, and no long ones", async (t) => {
  const { redis, address, admitted } = await redisAndAgent(t);
  assert.equal(await admitted("attacked", "known", 1), 1);

  const long = "x".repeat(1_000);
  for (let from = 0; from < INVENTED; from += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, at) =>
        passes(address, "attacked", { user: `${long}-${from + at}` }),
      ),
    );

  assert.equal(await redis.command("DBSIZE"), MAX_KEYS);
  assert.equal(await admitted("attacked", "known"), CAPACITY - 1, "counted in its own bucket");
  // The agent counts it alone, whose own table is full as well by now.
  assert.ok((await admitted("attacked", "new")) >= CAPACITY - 1);
  assert.equal(await admitted("other", "new"), CAPACITY, "the other limiter has room of its own");
  const { keys_overflow = 0 } = await counted(address, "sluice_anomalies_total", "kind");
  assert.ok(keys_overflow > INVENTED - MAX_KEYS, `${keys_overflow} overflows`);

  const keys = (await redis.command("KEYS", "*")) as readonly string[];
  const sizes = await Promise.all(keys.map((key) => redis.command("MEMORY", "USAGE", key)));
  const stated = /A bucket takes at most (\d+) bytes/.exec(
    readFileSync("docs/counters.md", "utf8"),
  );
  const most = Math.max(...sizes.map(Number));
  t.diagnostic(`the largest bucket takes ${most} bytes`);
  assert.ok(most <= Number(stated?.[1]), `${most} bytes of a bucket, ${stated?.[0]}`);
});

test("a value of Redis that holds no finite numbers is no counter, and is left as it is", async (t) => {
  const { redis, admitted } = await redisAndAgent(t);
  assert.equal(await admitted("attacked", "forged", 1), 1);
  const [key = ""] = (await redis.command("KEYS", "*")) as readonly string[];
  // Doubles of 8 bytes each: infinitely many tokens.
  const forged = "return redis.call('SET', KEYS[1], struct.pack('<dd', 1/0, 0))";
  await redis.command("EVAL", forged, 1, key);
  const before = await redis.command("DUMP", key);
  // Counted in process instead.
  assert.equal(await admitted("attacked", "forged", 2 * CAPACITY), CAPACITY);
  assert.deepEqual(await redis.command("DUMP", key), before);
});
