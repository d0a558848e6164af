// The home of buckets that agents share: what leases of tokens cost each other and never exceed.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketRequest, LeaseRequest } from "#flow/counters/bucket-home.ts";
import { OwnedBuckets } from "#flow/counters/owned-buckets.ts";
import { testContext } from "../limit/setup.ts";
import { bucketSuite, TEN_PER_SECOND } from "./suite.ts";

const NOTHING: BucketRequest = { runs: [], back: 0, overdraft: "refuse", lease: undefined };
const STEADY = { ...TEN_PER_SECOND, capacity: 100, amount: 0 };
const NO_LEASE = { turn: 0, unspent: 0, keep: 0, wish: 0, unit: 1, durationMs: 1_000 };

function home(maxKeys = 10_000) {
  const context = testContext(maxKeys);
  const { clock } = context;
  const owned = new OwnedBuckets(context);
  let turn = 0;
  return {
    ...{ clock, owned },
    ask: (request: Partial<BucketRequest>, params = STEADY, value: string | undefined = "k") =>
      owned.ask(value, { ...NOTHING, ...request }, params, clock.now()),
    take: (want: number, times = 1): Partial<BucketRequest> => ({ runs: [{ want, times }] }),
    lease: (agent: number, over: Partial<LeaseRequest>): Partial<BucketRequest> => ({
      lease: { ...NO_LEASE, agent, turn: ++turn, ...over },
    }),
  };
}

bucketSuite("home", async () => {
  const { owned, ask, take, clock } = home();
  return {
    async take(value, want, params) {
      const reply = owned.ask(value, { ...NOTHING, ...take(want) }, params, clock.now());
      return {
        outcome: reply.granted[0] === 1 ? "granted" : "refused",
        remaining: reply.tokens,
        current: params.capacity - reply.tokens,
        ...{ waitMs: reply.waitMs, id: "", full: reply.full },
      };
    },
    giveBack: async (value, back, params) => void ask({ back }, params, value),
    adopt: (params) => owned.adopt(params),
    advance: (ms) => clock.advance(ms),
  };
});

test("leased tokens are nobody else's, and are no part of what is spent", () => {
  const { ask, take, lease } = home();
  const first = ask(lease(1, { wish: 30 }));
  assert.deepEqual([first.leased, first.tokens], [30, 100]);
  assert.deepEqual(ask(take(1, 200)).granted, [70]);
  assert.deepEqual(ask(take(1)).granted, [0]);
  const back = ask({ ...take(1, 40), ...lease(1, { unspent: 12, keep: 2 }) });
  assert.deepEqual([back.granted, back.leased], [[10], 2], "18 of 30 were spent, 10 are free");
});

test("each run is granted as far as the tokens reach, and a later smaller one may pass", () => {
  const { ask } = home();
  const runs = [
    { want: 40, times: 2 },
    { want: 30, times: 1 },
    { want: 7, times: 5 },
    { want: 0, times: 3 },
  ];
  assert.deepEqual(ask({ runs }).granted, [2, 0, 2, 3]);
});

test("a share leaves as much for every other agent, and for one that has not asked yet", () => {
  const { ask, lease } = home();
  assert.equal(ask(lease(1, { wish: 1_000 })).leased, 50);
  assert.equal(ask(lease(2, { wish: 1_000 })).leased, 16);
  assert.equal(ask(lease(3, { wish: 1_000 })).leased, 8);
  assert.equal(ask(lease(4, { wish: 1_000, unit: 6 })).leased, 0, "less than one flow wants");
});

test("a lease that ended counts as spent from its end on, and the bucket fills again", () => {
  const { ask, take, lease, clock } = home();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  assert.equal(ask(lease(1, { wish: 40 }), params).leased, 40);
  clock.advance(999);
  assert.deepEqual(ask(take(61), params).granted, [0]);
  clock.advance(2_001);
  assert.equal(ask({}, params).tokens, 80, "60 at the end of the lease, and two seconds");
  clock.advance(2_000);
  assert.equal(ask({}, params).tokens, 100);
});

test("what is leased stops the fill as if it were not spent", () => {
  const { ask, take, lease, clock } = home();
  const params = { ...TEN_PER_SECOND, capacity: 100, amount: 10 };
  ask(lease(1, { wish: 40, durationMs: 60_000 }), params);
  ask(take(10), params);
  clock.advance(10_000);
  assert.deepEqual(ask(take(1, 100), params).granted, [60]);
});

test("requests that are not newer change nothing", () => {
  const { ask, take, lease } = home();
  const old = lease(1, { wish: 20 });
  ask(old);
  ask(lease(1, { unspent: 20, keep: 20, wish: 10 }));
  const again = ask({ ...old, ...take(5) });
  assert.deepEqual([again.granted, again.leased], [[0], 0]);
  assert.deepEqual(ask(take(1, 100)).granted, [70], "30 are leased");
});

test("an agent cannot keep or return tokens that it has not leased", () => {
  const { ask, take, lease } = home();
  ask(take(50));
  assert.equal(ask(lease(1, { unspent: 30, keep: 30, wish: 1 })).leased, 1);
  assert.equal(ask(lease(1, { unspent: 30, keep: 0 })).tokens, 50);
});

test("who is refused what others have leased makes them give it back", () => {
  const { ask, take, lease, clock } = home();
  ask(lease(1, { wish: 40 }));
  clock.advance(400);
  const refused = ask(take(80));
  assert.deepEqual([refused.granted, refused.waitMs], [[0], 600]);
  const renewed = ask(lease(1, { unspent: 40, keep: 40, wish: 40 }));
  assert.deepEqual([renewed.recall, renewed.leased], [true, 40]);
  assert.equal(ask(lease(1, { unspent: 40, keep: 0 })).leased, 0);
  assert.deepEqual(ask(take(80)).granted, [1]);
});

test("a lower capacity leaves no more than itself", () => {
  const { ask, take, lease } = home();
  ask(lease(1, { wish: 40 }));
  const low = { ...STEADY, capacity: 30 };
  assert.deepEqual(ask(take(1), low).granted, [0], "40 are leased");
  const back = ask({ ...take(1, 40), ...lease(1, { unspent: 12, keep: 0 }) }, low);
  assert.deepEqual(back.granted, [2], "28 of 30 are spent");
});

test("what is owed is paid by the fill before anything is granted", () => {
  const { ask, take, clock } = home();
  const params = { ...TEN_PER_SECOND, capacity: 10 };
  const owed = ask({ ...take(25), overdraft: "owe" }, params);
  assert.deepEqual([owed.granted, owed.tokens, owed.waitMs], [[1], 0, 1_500]);
  clock.advance(1_500);
  assert.deepEqual(ask(take(1), params).granted, [0]);
  clock.advance(100);
  assert.deepEqual(ask(take(1), params).granted, [1]);
});

test("keys with leases are bounded, and those of dead agents make room", () => {
  const { owned, ask, lease, clock } = home(20);
  const wish = (key: number) => ask(lease(1, { wish: 1 }), STEADY, `k${key}`).leased;
  for (let key = 0; key < 20; key++) assert.equal(wish(key), 1);
  assert.equal(wish(20), 0);
  assert.equal(owned.leased, 20);
  clock.advance(1_001);
  assert.equal(wish(21), 1);
  assert.equal(owned.leased, 13);
});

test("a bucket without leases costs no entry", () => {
  const { owned, ask, take, lease } = home();
  ask(take(1));
  assert.equal(owned.leased, 0);
  ask(lease(1, { wish: 1 }));
  ask(lease(1, { unspent: 1, keep: 0 }));
  assert.equal(owned.leased, 0);
});
