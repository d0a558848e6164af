// Lazy synchronisation: what passes on credit, when it is reported, and what is owed afterwards.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LazyKey } from "#counters/leases/lazy-key.ts";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { TestFleet } from "./setup.ts";

const LAZY: BucketParams = { ...TEN_PER_SECOND, capacity: 100, amount: 10, lazySyncs: 4 };

test("lazy_sync.enabled: only the first flow of a key asks, and all others pass on credit", () => {
  const fleet = new TestFleet(LAZY);
  const agent = fleet.agent();
  assert.equal(agent.pass(100), 100);
  assert.equal(fleet.requests.length, 1);
  assert.equal(fleet.free(), 100, "nothing is reported yet");
  const { outcome, waitMs } = agent.take();
  assert.deepEqual([outcome, waitMs], ["refused", 250], "until the next report");
});

test("lazy_sync.num_sync: what was admitted is reported as often per interval", () => {
  for (const lazySyncs of [1, 4, 10]) {
    const fleet = new TestFleet({ ...LAZY, capacity: 10_000, lazySyncs });
    const agent = fleet.agent();
    for (let ms = 0; ms < 10_000; ms += 10) {
      agent.take();
      fleet.advance(10);
    }
    const reports = fleet.requests.length;
    assert.ok(Math.abs(reports - 10 * lazySyncs) <= 2, `${reports} of ${10 * lazySyncs}`);
    assert.ok(fleet.requests.every(({ overdraft }) => overdraft === "owe"));
  }
});

test("agents that share a key admit what each of them saw, and pay for it before more passes", () => {
  const fleet = new TestFleet(LAZY);
  const [one, two] = [fleet.agent(), fleet.agent()];
  assert.equal(one.pass(200) + two.pass(200), 200, "capacity and one capacity of credit");
  fleet.advance(250);
  assert.equal(one.pass(10) + two.pass(10), 0);
  const refused = two.take();
  assert.equal(refused.outcome, "refused");
  assert.ok(refused.waitMs > 9_000 && refused.waitMs <= 10_000, `${refused.waitMs} ms`);
  let passed = 0;
  for (let ms = 0; ms < 20_000; ms += 50) {
    fleet.advance(50);
    passed += one.pass(1) + two.pass(1);
  }
  // 200 tokens filled; 100 of them were owed.
  assert.ok(passed >= 90 && passed <= 120, `${passed}`);
});

test("D-17: all that a bucket has is admitted, what is on credit is reported before a key is forgotten", () => {
  const fleet = new TestFleet({ ...LAZY, capacity: 6, amount: 0 });
  const agent = fleet.agent();
  assert.equal(agent.pass(10), 6, "all six");
  fleet.advance(10_000);
  assert.equal(agent.counts.keys, 0);
  assert.equal(fleet.free(), 0);
});

test("D-17: a report that nobody answered is made again", () => {
  const fleet = new TestFleet({ ...LAZY, amount: 0 });
  const agent = fleet.agent();
  assert.equal(agent.pass(30), 30);
  fleet.away = true;
  fleet.advance(300);
  assert.equal(agent.pass(5), 5, "still within two periods");
  fleet.advance(300);
  assert.equal(agent.take().outcome, "undecided");
  fleet.away = false;
  fleet.advance(1_000);
  assert.equal(agent.take().outcome, "granted");
  fleet.advance(1_000);
  assert.equal(fleet.free(), 64);
});

test("a report that was counted although its reply was late is not counted twice", () => {
  const fleet = new TestFleet({ ...LAZY, amount: 0 });
  const agent = fleet.agent();
  agent.pass(30);
  fleet.advance(250);
  fleet.hold = true;
  agent.take();
  const late = fleet.sent.shift()?.lose();
  late?.();
  fleet.hold = false;
  fleet.advance(1_000);
  assert.equal(fleet.free(), 69);
});

test("what a owner says by the capacity before is cut when the capacity falls meanwhile", () => {
  const key = new LazyKey(0);
  const says = (tokens: number) => ({
    granted: [1],
    tokens,
    waitMs: 0,
    leased: 0,
    recall: false,
    full: false,
  });
  key.report(0);
  key.answered(says(100), LAZY, 0);
  assert.equal(key.spend(40, 1), true);
  assert.equal(key.report(250), 40);
  const lower = { ...LAZY, capacity: 50 };
  key.adopt(lower, LAZY);
  assert.equal(key.left, 30);
  // The owner had counted by the capacity of 100 when it answered.
  key.answered(says(60), lower, 251);
  assert.equal(key.left, 30);
  key.report(500);
  key.answered(says(30), lower, 501);
  assert.equal(key.left, 30, "the next answer is by the new one");
});

test("flows wait together for the first report of a key", () => {
  const fleet = new TestFleet({ ...LAZY, capacity: 2 });
  const agent = fleet.agent();
  fleet.hold = true;
  const outcomes: string[] = [];
  for (let n = 0; n < 4; n++) {
    const answer = agent.start();
    assert.ok(answer instanceof Pending);
    answer.whenSettled(
      ({ outcome }) => outcomes.push(outcome),
      (thrown) => {
        throw thrown;
      },
    );
  }
  assert.equal(fleet.sent.length, 1);
  fleet.sent.shift()?.answer();
  assert.deepEqual(outcomes, ["granted", "granted", "refused", "refused"]);
});

test("what comes back is not reported, or returns to the owner", () => {
  const fleet = new TestFleet({ ...LAZY, amount: 0 });
  const agent = fleet.agent();
  agent.pass(10);
  agent.giveBack(4);
  fleet.advance(2_000);
  assert.equal(fleet.free(), 94);
  agent.giveBack(3);
  assert.equal(fleet.free(), 97);
});

test("a key for which there is no room is counted flow by flow", () => {
  const fleet = new TestFleet({ ...LAZY, amount: 0 });
  const agent = fleet.agent({ max_keys: 1 });
  agent.take(1, "a");
  assert.equal(agent.pass(200, 1, "b"), 100);
  assert.equal(fleet.requests.length, 201);
});
