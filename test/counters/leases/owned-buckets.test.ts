// The owner of buckets that agents share: what leases of tokens cost each other and never exceed.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type BucketRequest,
  type LeaseRequest,
  MAX_LEASES,
} from "#counters/leases/bucket-owner.ts";
import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import { bucketSuite, TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { testContext } from "../../flow/limit/setup.ts";

const NOTHING: BucketRequest = { runs: [], back: 0, overdraft: "refuse", lease: undefined };
const STEADY = { ...TEN_PER_SECOND, capacity: 100, amount: 0 };
const NO_LEASE = { turn: 0, unspent: 0, keep: 0, wish: 0, unit: 1, durationMs: 1_000 };

function owner(maxKeys = 10_000) {
  const context = testContext(maxKeys);
  const { clock } = context;
  const owned = new OwnedBuckets(new BucketStore(context, [1, 2]));
  let turn = 0;
  return {
    clock,
    owned,
    ask: (request: Partial<BucketRequest>, params = STEADY, value: string | undefined = "k") =>
      owned.ask(value, { ...NOTHING, ...request }, params, clock.now()),
    take: (want: number, times = 1): Partial<BucketRequest> => ({ runs: [{ want, times }] }),
    lease: (agent: number, over: Partial<LeaseRequest>): Partial<BucketRequest> => ({
      lease: { ...NO_LEASE, agent, turn: ++turn, ...over },
    }),
  };
}

bucketSuite("owner", async () => {
  const { owned, ask, take, clock } = owner();
  return {
    async take(value, want, params) {
      const reply = owned.ask(value, { ...NOTHING, ...take(want) }, params, clock.now());
      return {
        outcome: reply.granted[0] === 1 ? "granted" : "refused",
        remaining: reply.tokens,
        current: params.capacity - reply.tokens,
        waitMs: reply.waitMs,
        id: "",
        full: false,
      };
    },
    giveBack: async (value, back, params) => void ask({ back }, params, value),
    charge: async (value, amount, params) =>
      void ask({ ...take(amount), overdraft: "owe" }, params, value),
    adopt: (params) => owned.adopt(params),
    advance: (ms) => clock.advance(ms),
  };
});

test("leased tokens are nobody else's, and are no part of what is spent", () => {
  const { ask, take, lease } = owner();
  const first = ask(lease(1, { wish: 30 }));
  assert.deepEqual([first.leased, first.tokens], [30, 100]);
  assert.deepEqual(ask(take(1, 200)).granted, [70]);
  assert.deepEqual(ask(take(1)).granted, [0]);
  const back = ask({ ...take(1, 40), ...lease(1, { unspent: 12, keep: 2 }) });
  assert.deepEqual([back.granted, back.leased], [[10], 2], "18 of 30 were spent, 10 are free");
});

test("each run is granted as far as the tokens reach, and a later smaller one may pass", () => {
  const { ask } = owner();
  const runs = [
    { want: 40, times: 2 },
    { want: 30, times: 1 },
    { want: 7, times: 5 },
    { want: 0, times: 3 },
  ];
  assert.deepEqual(ask({ runs }).granted, [2, 0, 2, 3]);
});

test("a share leaves as much for every other agent, and for one that has not asked yet", () => {
  const { ask, lease } = owner();
  assert.equal(ask(lease(1, { wish: 1_000 })).leased, 50);
  assert.equal(ask(lease(2, { wish: 1_000 })).leased, 16);
  assert.equal(ask(lease(3, { wish: 1_000 })).leased, 8);
  assert.equal(ask(lease(4, { wish: 1_000, unit: 6 })).leased, 0, "less than one flow wants");
});

test("a share that grows counts what it has already, and consists of whole units", () => {
  const { ask, lease } = owner();
  ask(lease(1, { wish: 30 }));
  assert.equal(ask(lease(1, { unspent: 30, keep: 30, wish: 1_000 })).leased, 50);
  const { ask: other, lease: leaseOf } = owner();
  assert.equal(other(leaseOf(1, { wish: 1_000, unit: 6 })).leased, 48);
});

test("who gives its lease back takes nothing from the others, and who keeps it has it", () => {
  const { ask, take, lease } = owner();
  for (const agent of [1, 2]) ask(lease(agent, { wish: 1 }));
  ask(lease(1, { unspent: 1, keep: 0 }));
  assert.equal(ask(lease(2, { unspent: 1, keep: 1 })).leased, 1);
  assert.deepEqual(ask(take(1, 100)).granted, [99]);
  assert.equal(ask({ back: 1 }).tokens, 2, "the leased one, and one that came back");
});

test("more agents than can have leases of one key ask for each flow", () => {
  const { ask, take, lease } = owner();
  const params = { ...STEADY, capacity: 1_000_000 };
  for (let agent = 0; agent < MAX_LEASES; agent++)
    assert.equal(ask(lease(agent, { wish: 1 }), params).leased, 1);
  const further = ask({ ...take(5), ...lease(MAX_LEASES, { wish: 1 }) }, params);
  assert.deepEqual([further.granted, further.leased], [[1], 0]);
});

test("a lease that ended counts as spent from its end on, and the bucket fills again", () => {
  const { ask, take, lease, clock } = owner();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  assert.equal(ask(lease(1, { wish: 40 }), params).leased, 40);
  clock.advance(999);
  assert.deepEqual(ask(take(61), params).granted, [0]);
  clock.advance(2_001);
  assert.equal(ask({}, params).tokens, 80, "60 at the end of the lease, and two seconds");
  clock.advance(2_000);
  assert.equal(ask({}, params).tokens, 100);
});

test("a lease ends at its time, and those that ended first are spent first", () => {
  const one = owner();
  one.ask(one.lease(1, { wish: 40 }));
  one.clock.advance(1_000);
  assert.equal(one.ask({}).tokens, 60);
  const { ask, lease, clock } = owner();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  assert.equal(ask(lease(1, { wish: 50, durationMs: 2_000 }), params).leased, 50);
  assert.equal(ask(lease(2, { wish: 16, durationMs: 1_000 }), params).leased, 16);
  clock.advance(3_000);
  assert.equal(ask({}, params).tokens, 54, "84 after a second, 94 less 50 after another");
});

test("what is leased stops the fill as if it were not spent", () => {
  const { ask, take, lease, clock } = owner();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  ask(lease(1, { wish: 40, durationMs: 60_000 }), params);
  ask(take(10), params);
  clock.advance(10_000);
  assert.deepEqual(ask(take(1, 100), params).granted, [60]);
});

test("requests that are not newer change nothing", () => {
  const { ask, take, lease } = owner();
  const old = lease(1, { wish: 20 });
  ask(old);
  ask(lease(1, { unspent: 20, keep: 20, wish: 10 }));
  const nothing = { tokens: 0, waitMs: 0, leased: 0, recall: false };
  assert.deepEqual(ask({ ...old, ...take(5) }), { granted: [0], ...nothing });
  const last = lease(2, { wish: 5 });
  ask(last);
  assert.deepEqual(ask({ ...last, ...take(5) }), { granted: [0], ...nothing }, "the same turn");
  ask(lease(2, { unspent: 5, keep: 0 }));
  assert.deepEqual(ask(take(1, 100)).granted, [70], "30 are leased");
});

test("a request that is not newer does not end the leases of others", () => {
  const { ask, lease, clock } = owner();
  const small = { ...TEN_PER_SECOND, capacity: 0 };
  const large = { ...small, capacity: 100 };
  ask({ runs: [{ want: 5, times: 1 }], overdraft: "owe" }, small);
  const old = lease(1, { wish: 1, durationMs: 4_000 });
  ask(old, small);
  ask(lease(2, { wish: 1, durationMs: 1_000 }), small);
  clock.advance(2_000);
  ask(old, small);
  assert.equal(ask({}, large).tokens, 15, "5 owed, and two seconds of refill");
});

test("an agent cannot keep or return tokens that it has not leased", () => {
  const { ask, take, lease } = owner();
  ask(take(50));
  assert.equal(ask(lease(1, { unspent: 30, keep: 30, wish: 1 })).leased, 1);
  assert.equal(ask(lease(1, { unspent: 30, keep: 0 })).tokens, 50);
});

test("who is refused what others have leased makes them give it back", () => {
  const { ask, take, lease, clock } = owner();
  ask(lease(1, { wish: 40 }));
  clock.advance(400);
  const refused = ask(take(80));
  assert.deepEqual([refused.granted, refused.waitMs], [[0], 600]);
  const renewed = ask(lease(1, { unspent: 40, keep: 40, wish: 40 }));
  assert.deepEqual([renewed.recall, renewed.leased], [true, 40]);
  assert.equal(ask(lease(1, { unspent: 40, keep: 0 })).leased, 0);
  assert.deepEqual(ask(take(80)).granted, [1]);
});

test("a refusal says when its tokens are filled or given back, whichever is first", () => {
  const filling = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  const waitFor = (want: number, durationMs: number, params = filling) => {
    const { ask, take, lease } = owner();
    ask(take(50), params);
    assert.equal(ask(lease(1, { wish: 20, durationMs }), params).leased, 20);
    const { granted, waitMs } = ask(take(want), params);
    assert.deepEqual(granted, [0]);
    return waitMs;
  };
  assert.equal(waitFor(40, 60_000), 1_000, "the fill prefetches 10");
  assert.equal(waitFor(40, 500), 500, "the lease prefetches 20");
  assert.equal(waitFor(60, 1_500), 1_500, "the fill prefetches 10 and the lease 20");
  assert.equal(waitFor(60, 60_000), 3_000, "the fill prefetches 30");
  assert.equal(waitFor(60, 1_500, STEADY), 0, "it will never be there");
});

test("a lower capacity leaves no more than itself", () => {
  const { ask, take, lease } = owner();
  ask(lease(1, { wish: 40 }));
  const low = { ...STEADY, capacity: 30 };
  assert.deepEqual(ask(take(1), low).granted, [0], "40 are leased");
  assert.deepEqual(ask(take(0), low).granted, [1], "who wants nothing passes");
  const back = ask({ ...take(1, 40), ...lease(1, { unspent: 12, keep: 0 }) }, low);
  assert.deepEqual(back.granted, [2], "28 of 30 are spent");
});

test("what is owed is paid by the fill before anything is granted", () => {
  const { ask, take, clock } = owner();
  const params = { ...TEN_PER_SECOND, capacity: 10 };
  const owed = ask({ ...take(25), overdraft: "owe" }, params);
  assert.deepEqual([owed.granted, owed.tokens, owed.waitMs], [[1], 0, 1_500]);
  clock.advance(1_500);
  assert.deepEqual(ask(take(1), params).granted, [0]);
  clock.advance(100);
  assert.deepEqual(ask(take(1), params).granted, [1]);
});

test("keys with leases are bounded, and those of dead agents make room", () => {
  const { owned, ask, lease, clock } = owner(20);
  const wish = (key: number) => ask(lease(1, { wish: 1 }), STEADY, `k${key}`).leased;
  for (let key = 0; key < 20; key++) assert.equal(wish(key), 1);
  assert.equal(wish(20), 0);
  assert.equal(owned.leased, 20);
  clock.advance(1_001);
  assert.equal(wish(21), 1);
  assert.equal(owned.leased, 13);
});

test("closing forgets who has leased what", () => {
  const { owned, ask, lease } = owner();
  ask(lease(1, { wish: 1 }));
  owned.close();
  assert.equal(owned.leased, 0);
});

test("a bucket without leases costs no entry", () => {
  const { owned, ask, take, lease } = owner();
  ask(take(1));
  assert.equal(owned.leased, 0);
  ask(lease(1, { wish: 1 }));
  ask(lease(1, { unspent: 1, keep: 0 }));
  assert.equal(owned.leased, 0);
});

/** The hash of the only key. */
function onlyKey(owned: OwnedBuckets): readonly [lo: number, hi: number] {
  const keys = new Map<string, readonly [number, number]>();
  owned.each((lo, hi) => keys.set(`${lo}:${hi}`, [lo, hi]));
  assert.equal(keys.size, 1);
  return [...keys.values()][0] ?? assert.fail();
}

test("a bucket that another agent is to count has spent what is leased, and fills from the end of the last lease on", () => {
  const { owned, ask, take, lease, clock } = owner();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  owned.adopt(params);
  const begin = clock.now();
  assert.equal(
    ask({ ...take(20), ...lease(1, { wish: 30, durationMs: 2_000 }) }, params).leased,
    30,
  );
  assert.equal(ask(lease(2, { wish: 10, durationMs: 1_000 }), params).leased, 10);
  const read = () => owned.read(...onlyKey(owned));
  assert.deepEqual(read(), { available: 40, mark: begin + 2_000 });
  clock.advance(500);
  assert.deepEqual(read(), { available: 45, mark: begin + 2_000 });
  clock.advance(1_000);
  assert.deepEqual(read(), { available: 55, mark: begin + 2_000 }, "one of the leases is over");
  clock.advance(500);
  assert.deepEqual(read(), { available: 60, mark: begin + 2_000 }, "both are");
  clock.advance(100);
  assert.deepEqual(read(), { available: 61, mark: begin + 2_100 });
});

test("a bucket of which nothing was taken but leased is read as one that is full otherwise", () => {
  const { owned, ask, lease, clock } = owner();
  owned.adopt(STEADY);
  ask(lease(1, { wish: 30 }));
  const [lo, hi] = onlyKey(owned);
  assert.deepEqual(owned.read(lo, hi), { available: 70, mark: clock.now() + 1_000 });
  owned.adopt({ ...STEADY, capacity: 20 });
  assert.equal(
    owned.read(lo, hi)?.available,
    0,
    "no less than nothing, when the capacity is lower",
  );
});

test("a bucket that is taken over ends the leases of the one that was here, whose tokens are spent", () => {
  for (const how of ["take over", "copy"] as const) {
    const { owned, ask, take, lease, clock } = owner();
    owned.adopt(STEADY);
    ask({ ...take(20), ...lease(1, { wish: 30 }) });
    const [lo, hi] = onlyKey(owned);
    owned.put(lo, hi, { available: 90, mark: clock.now() }, how);
    assert.equal(owned.leased, 0);
    // 50 of 100 are gone here, and 10 there. A copy is what the other agent counts, and nothing else.
    assert.deepEqual(ask(take(1, 100)).granted, [how === "copy" ? 90 : 40]);
  }
});

test("a bucket that is taken over for a key that a full table forgot counts what was taken here", () => {
  for (const how of ["take over", "copy"] as const) {
    const { owned, ask, take, clock } = owner(1);
    owned.adopt(STEADY);
    ask(take(20));
    const [lo, hi] = onlyKey(owned);
    ask(take(30), STEADY, "other");
    assert.notDeepEqual(onlyKey(owned), [lo, hi], "the first key is forgotten");
    owned.put(lo, hi, { available: 90, mark: clock.now() }, how);
    assert.deepEqual(onlyKey(owned), [lo, hi]);
    assert.deepEqual(ask(take(1, 100)).granted, [how === "copy" ? 90 : 70], how);
  }
});

test("tokens that another agent gives back reach a bucket that a full table forgot", () => {
  const { owned, ask, take } = owner(1);
  owned.adopt(STEADY);
  ask(take(20));
  const [lo, hi] = onlyKey(owned);
  ask(take(90), STEADY, "other");
  assert.notDeepEqual(onlyKey(owned), [lo, hi], "the first key is forgotten");
  ask({ back: 15 });
  assert.deepEqual(ask(take(1, 100)).granted, [95]);
});
