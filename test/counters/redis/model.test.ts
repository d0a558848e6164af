// Random schedules of agents that share buckets in a real Redis, whose script reads the time of the schedule.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketReply } from "#counters/leases/bucket-owner.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import type { Owner } from "../model/schedule.ts";
import { runSchedules } from "../model/schedules.ts";
import { redisOwner, VirtualRedis } from "./virtual-time.ts";

const SCHEDULES = 100;
/** Not those that run against the owner in process. */
const FIRST = 500_001;

test("no schedule over Redis admits more than its bound, and none loses a token for ever", async (t) => {
  const { url } = await startRedis(t);
  const redis = new VirtualRedis(t, url);
  const start = redis.now;
  const owner = (): Owner => {
    const { owner: buckets, clock } = redisOwner(redis);
    const cleared = redis.clear();
    const begin = clock.now();
    const at = (now: number) => {
      clock.advance(begin + now - clock.now());
      redis.now = start + now;
    };
    return {
      forgetsFull: true,
      async ask(value, request, params, now) {
        await cleared;
        at(now);
        buckets.adopt(params);
        const reply = await new Promise<BucketReply | undefined>((resolve) => {
          buckets.ask(value, request, resolve, () => undefined);
        });
        if (reply === undefined) throw new Error("Redis did not answer");
        return reply;
      },
      adopt(params, now) {
        at(now);
        buckets.adopt(params);
      },
    };
  };
  const { lines, faults } = await runSchedules(FIRST, SCHEDULES, owner);
  for (const line of lines) t.diagnostic(line);
  assert.deepEqual(faults, []);
  assert.equal(lines.length, 3, "all three modes");
});
