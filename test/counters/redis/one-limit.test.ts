// Three agents in processes of their own share one limit in a real Redis, and get five times as much as it admits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startRedis } from "../../kit/servers/redis.ts";
import { passes } from "../../kit/sluice/check.ts";
import { standaloneProcess } from "../../kit/sluice/standalone.ts";

const CAPACITY = 100;
const PER_SECOND = 10;
/** Callers at one time: those of one agent alone ask for more than the limit. */
const CALLERS = 12;
/** The load ends when as many have passed: after five seconds if all is well. */
const ENOUGH = 150;

const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: ${PER_SECOND} } }
          parameters: { interval: 1s, on_failure: closed }
`;

test("three agents at five times a limit admit it together: 0.97 to 1.00 of capacity and refill", async (t) => {
  const redis = await startRedis(t);
  const env = {
    SVC_AGENT_COUNTERS_ENGINE: "redis",
    SVC_AGENT_COUNTERS_REDIS_URL: redis.url,
    SVC_AGENT_COUNTERS_REDIS_TIMEOUT: "10s",
  };
  const start = () => standaloneProcess(t, { policies: { "limit.yaml": POLICY }, env });
  const agents = [await start(), await start(), await start()];
  const serverMs = async () => {
    const [seconds, microseconds] = (await redis.command("TIME")) as [string, string];
    return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
  };
  let admitted = 0;
  let asked = 0;
  const caller = async (address: string) => {
    while (admitted < ENOUGH) {
      asked++;
      if (await passes(address, "shop")) admitted++;
    }
  };
  const begin = await serverMs();
  await Promise.all(
    Array.from({ length: CALLERS }, (_, at) => caller(agents[at % agents.length]?.address ?? "")),
  );
  // A refusal at the end shows that the bucket is empty, however slow the machine is.
  let refusedAt = await serverMs();
  while (await passes(agents[0]?.address ?? "", "shop")) {
    admitted++;
    refusedAt = await serverMs();
  }
  // By the clock of the server, by which the bucket is filled.
  const bound = (at: number) => CAPACITY + (PER_SECOND * (at - begin)) / 1_000;
  const [least, most] = [bound(refusedAt), bound(await serverMs())];
  t.diagnostic(`${asked} asked, ${admitted} admitted of ${most}`);
  assert.ok(admitted <= most, `${admitted} of ${most}`);
  assert.ok(admitted >= 0.97 * least, `${admitted} of ${least}`);
  assert.ok(asked - CAPACITY >= 5 * (least - CAPACITY), `${asked} asked: five times the limit`);
});
