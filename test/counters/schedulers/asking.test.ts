// The questions of a quota scheduler to buckets that another agent counts, in virtual time.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { BucketOwner, BucketRequest } from "#counters/leases/bucket-owner.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { LeasedBuckets } from "#counters/leases/leased-buckets.ts";
import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { NOTHING_LEFT, passed, quota, quotaRule, SchedulerBench } from "../../flow/schedule/kit.ts";

/** Time that a request to the owner and its reply take, ms. */
const ROUND_TRIP_MS = 10;

/** A quota scheduler that pauses for hardly any time, the agent that it runs at, and its requests. */
function benchOf(capacity: number, perSecond: number) {
  const requests: BucketRequest[] = [];
  let agent: LeaseHolder | undefined;
  const bench = new SchedulerBench(quotaRule(), quota(capacity, perSecond), (context) => {
    const { clock } = context;
    const owned = new OwnedBuckets(new BucketStore(context, [1, 2]));
    let params: BucketParams | undefined;
    const owner: BucketOwner = {
      adopt: (adopted) => {
        params = adopted;
        owned.adopt(adopted);
      },
      ask: (value, request, answered) => {
        requests.push(request);
        clock.alarm(ROUND_TRIP_MS / 2, () => {
          const reply = owned.ask(value, request, params ?? assert.fail(), clock.now());
          clock.alarm(ROUND_TRIP_MS / 2, () => answered(reply));
        });
        return true;
      },
    };
    agent = new LeaseHolder(1, clock, { enabled: true, duration: 1_000, max_keys: 10 });
    const buckets = new LeasedBuckets(agent, owner);
    const sharedCounters = { buckets: () => buckets, slots: () => assert.fail("it has no slots") };
    return { sharedCounters, chance: () => 0.001 };
  });
  assert.ok(agent !== undefined);
  return { bench, requests, counts: agent.counts };
}

it("a queue whose answers took longer than a round trip asks when it may, not again and again before", () => {
  const { bench, requests, counts } = benchOf(1, 1);
  const first = bench.ask();
  bench.clock.advance(ROUND_TRIP_MS / 2);
  // It waits for the request that is on its way, and for its own.
  const second = bench.ask();
  bench.clock.advance(500);
  assert.deepEqual([passed(first), passed(second), requests.length], [true, undefined, 2]);
  bench.clock.advance(1_000);
  assert.equal(passed(second), true);
  assert.equal(counts.refused, 0, "no question was refused without asking the owner");
  assert.ok(requests.length <= 4, `${requests.length} requests`);
  bench.state.close();
  assert.deepEqual(bench.left, NOTHING_LEFT);
});
