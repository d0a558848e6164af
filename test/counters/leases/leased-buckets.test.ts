// Leased tokens at one agent and at several: who waits, who asks, and what comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { bucketSuite, TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { type TestAgent, TestFleet } from "./setup.ts";

const PARAMS: BucketParams = { ...TEN_PER_SECOND, capacity: 1_000, amount: 1_000 };
const STEADY: BucketParams = { ...PARAMS, amount: 0 };

bucketSuite("leases", async () => {
  const fleet = new TestFleet(TEN_PER_SECOND);
  const agent = fleet.agent();
  const use = (params: BucketParams) => {
    fleet.params = params;
  };
  return {
    async take(value, want, params) {
      use(params);
      return agent.take(want, value as string);
    },
    async giveBack(value, amount, params) {
      use(params);
      agent.giveBack(amount, value as string);
    },
    async charge(value, amount, params) {
      use(params);
      agent.buckets.charge(value, amount, "", params);
    },
    adopt(params) {
      use(params);
      agent.buckets.adopt(params);
    },
    advance: (ms) => fleet.advance(ms),
  };
});

const failed = (thrown: unknown) => {
  throw thrown;
};

/** Makes a key hot: several flows in a short time. */
function hot(params = PARAMS) {
  const fleet = new TestFleet(params);
  const agent = fleet.agent();
  for (let n = 0; n < 100; n++) {
    agent.take();
    fleet.advance(1);
  }
  return { fleet, agent };
}

test("a hot key is decided without asking, and renewed before it runs out", () => {
  const { fleet, agent } = hot();
  const { asked } = agent.counts;
  const sent = fleet.requests.length;
  for (let n = 0; n < 1_000; n++) {
    assert.equal(agent.take().outcome, "granted");
    fleet.advance(1);
  }
  assert.equal(agent.counts.asked, asked, "no flow asked");
  const renewals = fleet.requests.length - sent;
  assert.ok(renewals >= 2 && renewals <= 10, `${renewals} requests for 1 000 flows`);
});

test("a flow that wants no tokens hears what is left now, also of a hot key, whose lease stays", () => {
  const fleet = new TestFleet(STEADY);
  const [agent, other] = [fleet.agent(), fleet.agent()];
  agent.pass(100);
  assert.equal(other.take(10).outcome, "granted");
  for (let n = 1; n <= 3; n++) {
    const { granted } = agent.counts;
    assert.equal(agent.take(0).remaining, 1_000 - 100 - 10 - (n - 1));
    assert.equal(agent.take().outcome, "granted");
    assert.equal(agent.counts.granted, granted + 1, "from the lease");
  }
});

/** Looks at a key, and adds the tokens that are left to a list when the answer comes. */
function look(agent: TestAgent, seen: (number | string)[]): Pending<EngineAnswer> {
  const answer = agent.start(0);
  assert.ok(answer instanceof Pending, "it asks the owner");
  answer.whenSettled(
    ({ outcome, remaining }) => seen.push(outcome === "granted" ? remaining : outcome),
    failed,
  );
  return answer;
}

test("flows that want no tokens of a hot key while others look at it share the next look", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.hold = true;
  const seen: (number | string)[] = [];
  const looks = Array.from({ length: 100 }, () => look(agent, seen));
  assert.equal(fleet.sent.length, 1, "one look is on its way");
  looks[99]?.cancel();
  assert.deepEqual(seen.splice(0), ["undecided"]);
  const other = fleet.owned.take("k", 10, fleet.params, fleet.now);
  assert.equal(other.outcome, "granted");
  fleet.sent.shift()?.answer();
  assert.deepEqual(seen.splice(0), [890]);
  assert.equal(fleet.sent.length, 1, "and one more for all others");
  fleet.sent.shift()?.answer();
  assert.deepEqual(seen.splice(0), new Array(98).fill(890));
  assert.equal(fleet.sent.length, 0);

  const [last] = [look(agent, seen), look(agent, seen)].slice(1);
  last?.cancel();
  fleet.sent.shift()?.answer();
  assert.deepEqual([seen.splice(0), fleet.sent.length], [["undecided", 890], 0], "nobody waits");

  look(agent, seen);
  look(agent, seen);
  fleet.sent.shift()?.lose();
  assert.deepEqual(seen, [900, 900], "one outage is waited for once");
  assert.equal(fleet.sent.length, 0);
});

test("a look that is answered after a renewal was sent tells of what was spent before it", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.hold = true;
  const seen: (number | string)[] = [];
  let passed = 0;
  look(agent, seen);
  while (fleet.sent.length === 1) {
    assert.equal(agent.take().outcome, "granted");
    passed++;
  }
  assert.ok(fleet.sent[1]?.request.lease, "a renewal");
  assert.ok(passed > 1);
  fleet.sent[0]?.answer();
  assert.deepEqual(seen, [900 - passed]);
  fleet.sent[1]?.answer();
  look(agent, seen);
  assert.equal(agent.take().outcome, "granted");
  fleet.sent[2]?.answer();
  assert.deepEqual(seen, [900 - passed, 900 - passed - 1]);
});

test("while the owner is away a flow that wants no tokens passes as long as the lease lasts", () => {
  const { fleet, agent } = hot();
  fleet.away = true;
  assert.equal(agent.take(0).outcome, "granted");
  fleet.advance(1_000);
  assert.equal(agent.take(0).outcome, "undecided");
});

test("a key that is used seldom asks for each flow, and leases nothing", () => {
  const fleet = new TestFleet(PARAMS);
  const agent = fleet.agent();
  for (let n = 0; n < 10; n++) {
    assert.equal(agent.take().outcome, "granted");
    fleet.advance(600);
  }
  assert.equal(agent.counts.asked, 10);
  assert.ok(fleet.requests.every(({ lease }) => lease === undefined));
});

test("counters.lease.enabled false: each flow asks, and nothing is remembered", () => {
  const fleet = new TestFleet(STEADY);
  const agent = fleet.agent({ enabled: false });
  assert.equal(agent.pass(1_100), 1_000);
  assert.equal(fleet.requests.length, 1_100);
  assert.equal(agent.counts.keys, 0);
});

test("counters.lease.duration: the owner counts the lease for as long", () => {
  const fleet = new TestFleet(PARAMS);
  const agent = fleet.agent({ duration: 7_000 });
  agent.pass(20);
  const leases = fleet.requests.flatMap(({ lease }) => (lease === undefined ? [] : [lease]));
  assert.ok(leases.length > 0);
  assert.deepEqual([...new Set(leases.map(({ durationMs }) => durationMs))], [7_000]);
});

test("counters.lease.max_keys: further keys ask for each flow, until others are idle", () => {
  const fleet = new TestFleet(PARAMS);
  const agent = fleet.agent({ max_keys: 2 });
  for (const key of ["a", "b", "c"]) agent.pass(20, 1, key);
  assert.equal(agent.counts.keys, 2);
  const { asked } = agent.counts;
  agent.pass(20, 1, "c");
  assert.equal(agent.counts.asked - asked, 20);
  fleet.advance(5_000);
  assert.equal(agent.counts.keys, 0);
  agent.pass(20, 1, "c");
  assert.ok(agent.counts.asked - asked < 40);
});

test("flows that want a key while it is asked for travel together, in one more request", () => {
  const fleet = new TestFleet({ ...STEADY, capacity: 5 });
  const agent = fleet.agent();
  fleet.hold = true;
  const outcomes: string[] = [];
  for (let n = 0; n < 8; n++) {
    const answer = agent.start();
    assert.ok(answer instanceof Pending);
    answer.whenSettled(({ outcome }: EngineAnswer) => outcomes.push(outcome), failed);
  }
  assert.deepEqual(
    fleet.sent.map(({ request }) => request.runs),
    [[{ want: 1, times: 1 }]],
  );
  fleet.sent.shift()?.answer();
  assert.deepEqual(
    fleet.sent.map(({ request }) => request.runs),
    [[{ want: 1, times: 7 }]],
  );
  fleet.sent.shift()?.answer();
  const granted = outcomes.filter((outcome) => outcome === "granted");
  assert.deepEqual([outcomes.length, granted.length], [8, 5]);
});

test("what the owner refused is refused without asking until it could be there", () => {
  const fleet = new TestFleet({ ...PARAMS, capacity: 10, amount: 10 });
  const agent = fleet.agent();
  assert.equal(agent.pass(10), 10);
  assert.equal(agent.take().waitMs, 100);
  const sent = fleet.requests.length;
  fleet.advance(40);
  const { outcome, waitMs } = agent.take();
  assert.deepEqual([outcome, Math.round(waitMs)], ["refused", 60]);
  assert.equal(fleet.requests.length, sent);
  assert.equal(agent.counts.refused, 1);
  fleet.advance(61);
  assert.equal(agent.take().outcome, "granted");
});

test("a queue asks the owner again so early that its request arrives when the tokens are there", () => {
  const fleet = new TestFleet({ ...PARAMS, capacity: 10, amount: 10 });
  const agent = fleet.agent({ enabled: true });
  assert.equal(agent.pass(10), 10);
  fleet.hold = true;
  assert.ok(agent.start() instanceof Pending);
  fleet.advance(20);
  fleet.sent[0]?.answer();
  fleet.advance(59);
  const queued = () =>
    agent.buckets.take("k", 1, fleet.params, fleet.now, { behind: 0, aheadMs: 20 });
  const early = queued();
  assert.ok(!(early instanceof Pending), "it would arrive too early");
  assert.ok(Math.abs(early.waitMs - 21) < 1e-6, `${early.waitMs} ms`);
  fleet.advance(1.5);
  assert.ok(!(agent.start() instanceof Pending), "a flow that does not wait is refused at once");
  assert.ok(queued() instanceof Pending);
});

test("D-4: a large refusal refuses no smaller flow, and what comes back is asked for at once", () => {
  const fleet = new TestFleet({ ...PARAMS, capacity: 10, amount: 10 });
  const agent = fleet.agent();
  assert.equal(agent.take(8).outcome, "granted");
  assert.equal(agent.take(5).outcome, "refused");
  assert.equal(agent.take(2).outcome, "granted", "smaller than what was refused");
  assert.equal(agent.take(3).outcome, "refused");
  agent.giveBack(8);
  assert.equal(fleet.free(), 8);
  assert.equal(agent.take(3).outcome, "granted");
});

test("new numbers forget what was refused", () => {
  const fleet = new TestFleet({ ...PARAMS, capacity: 10, amount: 0.001 });
  const agent = fleet.agent();
  agent.pass(11);
  fleet.params = { ...PARAMS, capacity: 10, amount: 10_000 };
  agent.buckets.adopt(fleet.params);
  fleet.advance(1);
  assert.equal(agent.take().outcome, "granted");
});

test("an agent that is not used any more gives back what it leased", () => {
  const { fleet, agent } = hot({ ...STEADY, capacity: 1_000 });
  fleet.advance(800);
  assert.equal(fleet.owned.leased, 0, "nothing is leased");
  assert.equal(fleet.free(), 900);
  fleet.advance(5_000);
  assert.equal(agent.counts.keys, 0);
  assert.equal(fleet.context.clock.alarms, 0);
});

test("a limiter that is closed gives back what it leased, and still answers", () => {
  const { fleet, agent } = hot(STEADY);
  agent.buckets.close();
  assert.equal(fleet.owned.leased, 0);
  assert.equal(fleet.free(), 900);
  assert.equal(agent.take().outcome, "granted");
  assert.equal(fleet.context.clock.alarms, 0);
});

test("while the owner is away leased tokens are spent to their end, and then nothing is decided", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.away = true;
  assert.equal(agent.take().outcome, "granted");
  let passed = 1;
  while (agent.take().outcome === "granted") passed++;
  assert.ok(passed > 5 && passed < 500, `${passed} were leased`);
  assert.equal(agent.take().outcome, "undecided");
  fleet.away = false;
  fleet.advance(1_000);
  assert.ok(fleet.free() <= 900 - passed, "all of them count");
});

test("a lease is spent for less time than the owner counts it", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.away = true;
  fleet.advance(940);
  // Held until at most 950 ms after the last request, which was some ms ago.
  const late = fleet.context.clock.now();
  let last = late;
  for (let n = 0; n < 20; n++) {
    if (agent.take().outcome === "granted") last = fleet.context.clock.now();
    fleet.advance(5);
  }
  assert.ok(last - late < 50, `${last - late} ms`);
});

test("a lease is counted from before it was asked for, however late the reply is", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.hold = true;
  while (fleet.sent.length === 0) agent.take();
  fleet.advance(960);
  fleet.away = true;
  fleet.sent[0]?.answer();
  assert.equal(agent.take().outcome, "undecided", "it is over on arrival");
});

test("what a caller did not wait for comes back", () => {
  const fleet = new TestFleet(STEADY);
  const agent = fleet.agent();
  fleet.hold = true;
  const answer = agent.start(5);
  assert.ok(answer instanceof Pending);
  answer.cancel();
  fleet.hold = false;
  fleet.sent.shift()?.answer();
  assert.equal(fleet.free(), 1_000);
});

test("what a late reply granted comes back", () => {
  const fleet = new TestFleet(STEADY);
  const agent = fleet.agent();
  fleet.hold = true;
  const outcomes: string[] = [];
  const answer = agent.start(5);
  assert.ok(answer instanceof Pending);
  answer.whenSettled(({ outcome }) => outcomes.push(outcome), failed);
  const late = fleet.sent.shift()?.lose();
  assert.deepEqual(outcomes, ["undecided"]);
  fleet.hold = false;
  late?.();
  assert.equal(fleet.free(), 1_000);
});

test("tokens that come back never make a lease larger than the owner counts it", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.hold = true;
  // Spends until a renewal is on its way: the owner counts what is left then.
  while (fleet.sent.length === 0) agent.take();
  const keep = fleet.sent[0]?.request.lease?.keep ?? 0;
  fleet.sent[0]?.lose();
  fleet.hold = false;
  fleet.away = true;
  agent.giveBack(500);
  let passed = 0;
  while (agent.take().outcome === "granted") passed++;
  assert.equal(passed, Math.floor(keep));
});

test("a lower capacity cuts leased tokens, also those that are on their way", () => {
  const { fleet, agent } = hot(STEADY);
  fleet.hold = true;
  while (fleet.sent.length === 0) agent.take();
  const lower = { ...STEADY, capacity: 10 };
  const [renewal] = fleet.sent.splice(0);
  renewal?.answer();
  fleet.params = lower;
  agent.buckets.adopt(lower);
  fleet.away = true;
  let passed = 0;
  while (agent.take().outcome === "granted") passed++;
  assert.ok(passed <= 10, `${passed}`);

  const other = hot(STEADY);
  other.fleet.hold = true;
  while (other.fleet.sent.length === 0) other.agent.take();
  const held = other.fleet.sent.splice(0);
  // The owner decided by the old numbers.
  const params = other.fleet.params;
  other.agent.buckets.adopt(lower);
  other.fleet.owned.adopt(params);
  held[0]?.answer();
  other.fleet.params = lower;
  other.fleet.away = true;
  passed = 0;
  while (other.agent.take().outcome === "granted") passed++;
  assert.ok(passed <= 10, `${passed}`);
});

test("who is refused what others have leased gets it when they gave it back", () => {
  const { fleet, agent } = hot({ ...STEADY, capacity: 200 });
  const other = fleet.agent();
  const { outcome, waitMs } = other.take(95);
  assert.equal(outcome, "refused");
  assert.ok(waitMs > 0 && waitMs <= 1_000, `${waitMs}`);
  // The first agent goes on seldom, and learns of it.
  for (let n = 0; n < 4; n++) {
    fleet.advance(250);
    agent.take();
  }
  fleet.advance(100);
  assert.equal(other.take(95).outcome, "granted");
});

test("one idle agent with a large lease starves nobody", () => {
  const { fleet } = hot({ ...STEADY, capacity: 200 });
  const passed = fleet.agent().pass(200);
  assert.ok(passed >= 50, `${passed} of 100`);
});

test("three agents at five times a limit admit it together: 0.97 to 1.00 of capacity and refill", () => {
  for (const [capacity, amount] of [
    [100, 100],
    [1_000, 2_000],
    [10, 50],
  ] as const) {
    const params = { ...TEN_PER_SECOND, capacity, amount };
    const fleet = new TestFleet(params);
    const agents = [fleet.agent(), fleet.agent(), fleet.agent()];
    let admitted = 0;
    const seconds = 10;
    const each = (5 * amount) / 3 / 1_000;
    let due = 0;
    for (let ms = 0; ms < seconds * 1_000; ms++) {
      for (due += each; due >= 1; due--) for (const agent of agents) admitted += agent.pass(1);
      fleet.advance(1);
    }
    const bound = capacity + amount * seconds;
    assert.ok(admitted <= bound + 1e-6, `${admitted} of ${bound}`);
    assert.ok(admitted >= 0.97 * bound, `${admitted} of ${bound}`);
  }
});

for (const enabled of [true, false]) {
  test(`an answer prefetches tokens for flows that wait behind, leases ${enabled ? "on" : "off"}: what they leave goes back, and what is short is not asked for again`, () => {
    const fleet = new TestFleet({ ...STEADY, capacity: 10 });
    const agent = fleet.agent({ enabled });
    const { params, now } = fleet;
    const ask = (want: number, behind: number) =>
      agent.buckets.take("k", want, params, now, { behind, aheadMs: 0 });
    fleet.hold = true;
    const seen: string[] = [];
    const first = ask(2, 5);
    assert.ok(first instanceof Pending);
    first.whenSettled(({ outcome }) => {
      seen.push(outcome);
      // Two more requests of this size fit into the five tokens that are wanted behind it.
      for (const want of [1, 2]) {
        const next = ask(want, 0);
        assert.ok(!(next instanceof Pending), "it is there");
        seen.push(next.outcome);
      }
    }, failed);
    fleet.sent[0]?.answer();
    assert.deepEqual(seen, ["granted", "granted", "granted"]);
    assert.equal(fleet.free(), 10 - 2 - 3 - 1);
    assert.equal(fleet.sent.length, 2, "one request, and one that returns the last token");
    fleet.sent[1]?.answer();
    assert.equal(fleet.free(), 5);

    const second = ask(1, 9);
    assert.ok(second instanceof Pending);
    let granted = 0;
    second.whenSettled(({ outcome }) => {
      for (let next = outcome; next === "granted"; ) {
        granted++;
        const answer = ask(1, 9 - granted);
        assert.ok(!(answer instanceof Pending), "nobody asks for what is not there");
        next = answer.outcome === "granted" ? "granted" : "refused";
      }
    }, failed);
    fleet.sent[2]?.answer();
    assert.deepEqual([granted, fleet.free(), fleet.sent.length], [5, 0, 3]);
  });
}

test("tokens that an answer prefetches are granted to flows of their own key alone", () => {
  const fleet = new TestFleet({ ...STEADY, capacity: 10 });
  const agent = fleet.agent();
  const { params, now } = fleet;
  fleet.hold = true;
  const first = agent.buckets.take("k", 1, params, now, { behind: 5, aheadMs: 0 });
  assert.ok(first instanceof Pending);
  let other: EngineAnswer | Pending<EngineAnswer> | undefined;
  first.whenSettled(() => {
    other = agent.buckets.take("other", 1, params, now);
  }, failed);
  fleet.sent[0]?.answer();
  assert.ok(other instanceof Pending, "another key asks the owner");
  for (const { answer } of fleet.sent.slice(1)) answer();
  assert.deepEqual([fleet.free("k"), fleet.free("other")], [9, 9]);
});
