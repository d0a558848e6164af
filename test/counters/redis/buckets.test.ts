// Token buckets in a real Redis: the suite of all engines, and random schedules beside the engine that counts in process.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import fc from "fast-check";
import type { BucketReply } from "#counters/leases/bucket-owner.ts";
import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { LocalBuckets } from "#flow/counters/local/local-buckets.ts";
import { bucketSuite, TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { testContext } from "../../flow/limit/setup.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { benchOf, redisOwner, VirtualRedis } from "./virtual-time.ts";

/** One server for the tests of this file. */
const here = { after: (end: () => void) => after(end) };
const { url } = await startRedis(here);
const redis = new VirtualRedis(here, url);

bucketSuite("redis", async () => {
  await redis.clear();
  return benchOf(redis);
});

bucketSuite("redis with leases", async () => {
  await redis.clear();
  return benchOf(redis, true);
});

test("what nobody waited for comes back", async () => {
  await redis.clear();
  const bench = benchOf(redis);
  const params = { ...TEN_PER_SECOND, amount: 0 };
  await bench.take("a", 3, params);
  assert.equal(await bench.abandon("a", 5, params), "undecided");
  assert.equal((await bench.take("a", 0, params)).remaining, 7);
  assert.equal(await bench.abandon("a", 8, params), "undecided");
  assert.equal((await bench.take("a", 0, params)).remaining, 7, "a late refusal took nothing");
});

test("a server whose clock was set back fills nothing twice and delays nothing", async () => {
  await redis.clear();
  const bench = benchOf(redis);
  assert.equal((await bench.take("a", 10, TEN_PER_SECOND)).remaining, 0);
  redis.now -= 3_600_000;
  assert.equal((await bench.take("a", 1, TEN_PER_SECOND)).outcome, "refused");
  await bench.advance(200);
  const { outcome, remaining } = await bench.take("a", 2, TEN_PER_SECOND);
  assert.deepEqual([outcome, remaining], ["granted", 0]);
});

test("a bucket is kept until it is full; one that never fills, for as long as it may be unused", async () => {
  for (const [amount, maxIdleMs, wanted] of [
    [0.1, 0, [100_000]],
    [0.1, 7_200_000, [100_000]],
    [0.1, 30_000, [100_000]],
    [0, 30_000, [30_000]],
    [0, 0, [Number.POSITIVE_INFINITY]],
  ] as const) {
    await redis.clear();
    redis.keepsAll = false;
    await benchOf(redis).take("a", 10, { ...TEN_PER_SECOND, amount, maxIdleMs });
    assert.deepEqual(redis.lives, wanted, `${amount}, ${maxIdleMs}`);
  }
});

test("leased tokens count as spent at the end of their lease, so a bucket is kept until they are filled again", async () => {
  await redis.clear();
  redis.keepsAll = false;
  const { owner } = redisOwner(redis);
  owner.adopt({ ...TEN_PER_SECOND, amount: 0.1 });
  const lease = { agent: 1, turn: 1, unspent: 0, keep: 0, wish: 10, unit: 1, durationMs: 500 };
  const request = { runs: [], back: 0, overdraft: "refuse", lease } as const;
  const reply = await new Promise<BucketReply | undefined>((resolve) => {
    owner.ask("a", request, resolve, () => undefined);
  });
  const leased = reply?.leased ?? 0;
  assert.ok(leased > 0, "some are leased");
  assert.deepEqual(redis.lives, [500 + leased * 10_000]);
});

test("a bucket that owes tokens is filled by all rates that there have been since", async () => {
  await redis.clear();
  redis.keepsAll = false;
  const bench = benchOf(redis);
  const rate = (amount: number) => ({ ...TEN_PER_SECOND, amount });
  await bench.charge("a", 20, rate(0.5));
  await bench.advance(2_000);
  bench.adopt(rate(0.8));
  await bench.advance(21_500);
  // One that was empty would have been full by now at the first rate, which takes 20 s.
  const { remaining } = await bench.take("a", 0, rate(0.9));
  assertNear(remaining, -10 + 2 * 0.5 + 21.5 * 0.8, "remaining");
});

const PARAMS = fc.record({
  capacity: fc.constantFrom(0, 1, 2.5, 10, 1_000),
  amount: fc.constantFrom(0, 0.5, 1, 10, 333),
  intervalMs: fc.constantFrom(100, 1_000, 60_000),
});
const STEP = fc.oneof(
  { weight: 6, arbitrary: fc.record({ take: fc.constantFrom(0, 0.25, 1, 2, 10, 2_000) }) },
  { weight: 2, arbitrary: fc.record({ back: fc.constantFrom(0.5, 1, 5) }) },
  { weight: 5, arbitrary: fc.record({ advance: fc.constantFrom(1, 7, 99.5, 1_000, 61_000) }) },
  { weight: 1, arbitrary: fc.record({ adopt: PARAMS }) },
);

test("random schedules get the same answers as in process", async () => {
  await fc.assert(
    fc.asyncProperty(
      PARAMS,
      fc.boolean(),
      fc.boolean(),
      fc.array(STEP, { minLength: 5, maxLength: 25 }),
      async (first, continuous, delayed, steps) => {
        await redis.clear();
        redis.keepsAll = true;
        const bench = benchOf(redis);
        const context = testContext();
        const local = new LocalBuckets(context, "");
        let params: BucketParams = { ...TEN_PER_SECOND, ...first, continuous, delayed };
        for (const buckets of [bench, local]) buckets.adopt(params);
        for (const step of steps) {
          if ("advance" in step) {
            await bench.advance(step.advance);
            context.clock.advance(step.advance);
          } else if ("adopt" in step) {
            // A delay lasts at most as long as filling takes by today's numbers, where clocks may differ.
            if (delayed) continue;
            // A change of the interval in a bucket that fills in steps moves its steps: not compared.
            const intervalMs = continuous ? step.adopt.intervalMs : params.intervalMs;
            params = { ...params, ...step.adopt, intervalMs };
            for (const buckets of [bench, local]) buckets.adopt(params);
          } else if ("back" in step) {
            local.giveBack("k", step.back, "", params);
            await bench.giveBack("k", step.back, params);
            local.take("k", 0, params, context.clock.now());
          } else {
            const wanted = { ...local.take("k", step.take, params, context.clock.now()) };
            const got = await bench.take("k", step.take, params);
            for (const each of ["outcome", "id", "full"] as const)
              assert.equal(got[each], wanted[each], each);
            for (const each of ["remaining", "current", "waitMs"] as const)
              assertNear(got[each], wanted[each], each);
          }
        }
      },
    ),
    {
      numRuns: 300,
      // The first rate still counts after numbers by which a bucket is soon full.
      examples: [
        [
          { capacity: 10, amount: 0, intervalMs: 100 },
          false,
          false,
          [
            { take: 2 },
            { advance: 1_000 },
            { adopt: { capacity: 0, amount: 0.5, intervalMs: 100 } },
            { advance: 61_000 },
            { adopt: { capacity: 1_000, amount: 333, intervalMs: 100 } },
            { back: 0.5 },
            { advance: 1 },
            { take: 0 },
          ],
        ],
      ],
    },
  );
});

const AGENT = fc.integer({ min: 1, max: 3 });
const AMOUNT = fc.constantFrom(0, 0.25, 1, 2, 10);
const REQUEST = fc.record({
  runs: fc.array(fc.record({ want: AMOUNT, times: fc.integer({ min: 1, max: 4 }) }), {
    maxLength: 3,
  }),
  back: fc.constantFrom(0, 0, 0, 0.5, 3),
  overdraft: fc.constantFrom("refuse", "refuse", "refuse", "owe" as const),
  lease: fc.option(
    fc.record({
      agent: AGENT,
      /** Added to the last turn: some requests are old. */
      turn: fc.constantFrom(1, 1, 1, 1, -3),
      unspent: AMOUNT,
      keep: AMOUNT,
      wish: AMOUNT,
      unit: fc.constantFrom(0.25, 1, 3),
      durationMs: fc.constantFrom(500, 1_000, 4_000),
    }),
    { nil: undefined },
  ),
});
const LEASE_STEP = fc.oneof(
  { weight: 8, arbitrary: fc.record({ ask: REQUEST }) },
  { weight: 4, arbitrary: fc.record({ advance: fc.constantFrom(1, 7, 99.5, 1_000, 5_000) }) },
  { weight: 1, arbitrary: fc.record({ adopt: PARAMS }) },
);

const NOTHING = { runs: [], back: 0 as const, overdraft: "refuse" as const };
const LEASE = { turn: 1, unspent: 0, keep: 0, wish: 0, unit: 0.25, durationMs: 500 } as const;

test("random requests with leases get the same replies as from the owner in process", async () => {
  await fc.assert(
    fc.asyncProperty(
      PARAMS,
      fc.boolean(),
      fc.array(LEASE_STEP, { minLength: 5, maxLength: 30 }),
      async (first, continuous, steps) => {
        await redis.clear();
        redis.keepsAll = true;
        const { owner, advance } = redisOwner(redis);
        const context = testContext();
        const owned = new OwnedBuckets(new BucketStore(context, [1, 2]));
        let params: BucketParams = { ...TEN_PER_SECOND, ...first, continuous };
        for (const each of [owner, owned]) each.adopt(params);
        let turn = 0;
        // In process, the steps of an interval begin with the first token that is taken.
        const begin = { runs: [{ want: 0.25, times: 1 }], back: 0, overdraft: "owe" } as const;
        for (const step of [{ ask: { ...begin, lease: undefined } }, ...steps]) {
          if ("advance" in step) {
            advance(step.advance);
            context.clock.advance(step.advance);
          } else if ("adopt" in step) {
            const intervalMs = continuous ? step.adopt.intervalMs : params.intervalMs;
            params = { ...params, ...step.adopt, intervalMs };
            for (const each of [owner, owned]) each.adopt(params);
          } else {
            const { lease } = step.ask;
            turn += 1;
            const request = {
              ...step.ask,
              lease: lease && { ...lease, turn: turn + Math.min(0, lease.turn) },
            };
            const wanted = owned.ask("k", request, params, context.clock.now());
            const got = await new Promise<BucketReply | undefined>((resolve) => {
              owner.ask("k", request, resolve, () => undefined);
            });
            assert.ok(got !== undefined);
            assert.deepEqual(got.granted, wanted.granted);
            assert.equal(got.recall, wanted.recall, "recall");
            for (const each of ["tokens", "leased", "waitMs"] as const)
              assertNear(got[each], wanted[each], each);
          }
        }
      },
    ),
    {
      numRuns: 500,
      examples: [
        // An old request comes after another agent's lease has ended, and before the capacity changes.
        [
          { capacity: 0, amount: 10, intervalMs: 100 },
          false,
          [
            { ask: { ...NOTHING, lease: { ...LEASE, agent: 1, durationMs: 4_000, wish: 0.25 } } },
            { ask: { ...NOTHING, lease: { ...LEASE, agent: 2, wish: 1 } } },
            { advance: 1_000 },
            { ask: { ...NOTHING, lease: { ...LEASE, agent: 1, turn: -3 } } },
            { adopt: { capacity: 1_000, amount: 0, intervalMs: 100 } },
            { advance: 1 },
            { ask: { ...NOTHING, lease: undefined } },
          ],
        ],
      ],
    },
  );
});

/** The server's time has a resolution of a microsecond, so that amounts and waits differ a little. */
function assertNear(got: number, wanted: number, what: string): void {
  const close = got === wanted || Math.abs(got - wanted) <= 0.01;
  assert.ok(close, `${what}: wanted ${wanted}, got ${got}`);
}
