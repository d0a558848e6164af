// Faults of a Redis that counts for three agents.

import { type RedisServer, startRedisWithSentinels } from "../../../kit/servers/redis.ts";
import { scraped } from "../../../kit/sluice/scrape.ts";
import { until } from "../../../kit/until.ts";
import type { Fleet } from "../fleet.ts";
import type { Load } from "../load.ts";
import type { Row } from "../row.ts";

const ENV = { COUNTERS_REDIS_TIMEOUT: "1s" } as const;
const AWAY =
  "`on_failure` answers until Redis does: `closed` refuses, `local` counts in each of the three agents.";
/** Number of capacities that three agents admit when each counts alone. */
const ALONE = 3;

/** A Redis that keeps its data and does not answer for a while. */
const NO_ANSWER = {
  family: "Redis",
  fleet: { engine: "redis", env: ENV },
  bounds: { rate: 0, filling: 0, slots: 0, "rate-local": ALONE },
  expected: AWAY,
  checks: 200,
} as const;

async function up({ agents }: Fleet): Promise<void> {
  for (const each of agents)
    await until("Redis is asked", async () =>
      /^sluice_counter_engine_up{engine="redis"} 1$/m.test(await scraped(each.address())),
    );
}

async function away(
  fleet: Fleet,
  load: Load,
  fail: () => Promise<unknown>,
  repair: () => unknown,
): Promise<void> {
  await fail();
  for (const limit of ["rate", "slots", "rate-local"] as const) await load.told(limit, "onFailure");
  await load.more(60);
  await repair();
  await up(fleet);
  await load.more(20);
}

const found = ({ redis }: Fleet): RedisServer => {
  if (redis === undefined) throw new Error("there is no Redis");
  return redis;
};

export const REDIS: readonly Row[] = [
  {
    fault: "Redis is killed, and starts again without its data",
    family: "Redis",
    fleet: { engine: "redis", env: ENV },
    bounds: { rate: 1, filling: 1, slots: 1, "rate-local": 1 + ALONE },
    expected: `${AWAY} All counts are lost, once.`,
    checks: 200,
    async happens(fleet, load) {
      const redis = found(fleet);
      await away(fleet, load, redis.kill, redis.restart);
    },
  },
  {
    fault: "Redis is frozen (SIGSTOP)",
    ...NO_ANSWER,
    async happens(fleet, load) {
      const redis = found(fleet);
      await away(fleet, load, redis.freeze, redis.thaw);
    },
  },
  {
    fault: "the master of Redis is killed, and Sentinels let a replica take over",
    family: "Redis",
    fleet: {
      engine: "redis",
      env: ENV,
      redis: async (test) => {
        const { master: server, env } = await startRedisWithSentinels(test);
        const named = Object.entries(env).map(([key, value]) => [`COUNTERS_REDIS_${key}`, value]);
        return { server, env: Object.fromEntries(named) };
      },
    },
    bounds: { rate: 1, filling: 1, slots: 1, "rate-local": 1 + ALONE },
    expected: `${AWAY} Writes that the replica had not received are lost.`,
    checks: 200,
    async happens(fleet, load) {
      await away(fleet, load, found(fleet).kill, () => undefined);
    },
  },
  {
    fault: "the scripts of Redis are flushed, ten times",
    family: "Redis",
    fleet: { engine: "redis" },
    bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 0 },
    expected: "Nobody notices: scripts are sent again.",
    checks: 200,
    async happens(fleet, load) {
      for (let n = 0; n < 10; n++) {
        await found(fleet).command("SCRIPT", "FLUSH");
        await load.more(10);
      }
    },
  },
  {
    fault: "Redis is out of memory",
    ...NO_ANSWER,
    async happens(fleet, load) {
      const limit = (bytes: number) => () =>
        found(fleet).command("CONFIG", "SET", "maxmemory", bytes);
      await away(fleet, load, limit(1), limit(0));
    },
  },
];
