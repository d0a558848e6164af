// Handing over keys when members change: each bucket is counted once, whatever fails or comes late, and checks go on.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { PeerBuckets } from "#counters/peers/buckets.ts";
import { HandOver } from "#counters/peers/exchange/hand-over.ts";
import { Ring, type RingMember } from "#counters/peers/membership/ring.ts";
import { OwnedLimiters } from "#counters/peers/owned-limiters.ts";
import type { EngineAnswer } from "#flow/counters/counter-engine.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { fakeClock } from "../../kit/clock.ts";
import { silentLog } from "../../kit/sluice/log.ts";
import { type Agent, Network } from "./network.ts";
import { drain, first, KEYS, limiterOf, TEN } from "./tokens.ts";

/** An agent that has counted three tokens of each key alone, and a second one that nobody has told about yet. */
async function joining(t: TestContext) {
  const network = new Network(t);
  const alone = await network.joined(1);
  assert.equal(await drain(alone, 3), 3 * KEYS.length);
  const second = network.start();
  return { network, agents: [...alone, second], second };
}

test("a message that arrives twice is applied once", async (t) => {
  const { network, agents, second } = await joining(t);
  // The reply to the hand-over is lost: it is sent again.
  network.cut.add(`${second.member.id}>${first(agents).member.id}`);
  network.tell(agents);
  await network.settle();
  network.cut.clear();
  await network.pass(100);
  assert.equal(second.group.counts.received, KEYS.filter((key) => second.owns(key)).length);
  assert.equal(await drain(agents, 12), 7 * KEYS.length);
});

test("a hand-over that could not be taken over is sent again, and counts", async (t) => {
  const { network, agents, second } = await joining(t);
  const failing = t.mock.method(second.group.owned, "known", () => assert.fail("no memory"));
  network.tell(agents);
  await network.settle();
  assert.equal(failing.mock.callCount(), 1);
  assert.equal(second.group.joining, true, "nobody has handed over yet");
  failing.mock.restore();
  await network.pass(100);
  assert.equal(second.group.joining, false);
  assert.equal(await drain(agents, 12), 7 * KEYS.length);
});

test("a failure while keys are handed over is logged, and neither stops the next change nor copies", async (t) => {
  for (const rest of ["in slices", "at once"]) {
    const network = new Network(t);
    const old = await counted(network);
    const [second, third] = [network.start(), network.start()];
    const { buckets } = limiterOf(old);
    network.tell([old, second]);
    assert.notEqual(buckets.keys, 0);
    const failing = t.mock.method(buckets, "read", () => assert.fail("a bad bucket"));
    if (rest === "in slices") await network.settle();
    network.tell([old, second, third]);
    failing.mock.restore();
    await network.settle();
    assert.notEqual(old.group.ring.find(third.member.id), undefined, rest);
    assert.deepEqual([second.group.joining, third.group.joining], [false, false], rest);
    const errors = old.lines.filter(({ level }) => level === "error");
    assert.match(errors.map(({ message }) => message).join(), /could not be handed over in full/);
    const limiter = limiterOf(old);
    const copy = old.group.receive({
      from: second.member.id,
      number: 10_000,
      purpose: "copy",
      last: false,
      moved: [{ kind: "bucket", limiter, lo: 1, hi: 2, available: 3, filledMs: 0 }],
    });
    assert.equal(copy, undefined, "copies do not wait for a change that has failed");
    assert.equal(limiter.buckets.read(1, 2)?.available, 3);
  }
});

test("an agent that leaves with more than one message of buckets gets none of them back", async (t) => {
  const network = new Network(t);
  const [leaving, staying] = (await network.joined(2)) as [Agent, Agent];
  const keys = Array.from({ length: 6_500 }, (_, at) => `user-${at}`);
  const name = { policyName: "policy", name: "second" };
  const second = new PeerBuckets(leaving.group, leaving.leases, name);
  const own = keys.filter((key) => leaving.owns(key));
  for (const key of own) {
    leaving.buckets.take(key, 3, TEN, network.clock.now());
    second.take(key, 3, TEN, network.clock.now());
  }
  staying.buckets.adopt(TEN);
  network.calls.Store = 0;
  await leaving.group.leave();
  await network.settle();
  assert.equal(network.calls.Store, 2);
  network.tell([staying]);
  for (const key of own) {
    const { remaining } = staying.buckets.take(key, 0, TEN, network.clock.now()) as EngineAnswer;
    assert.equal(remaining, 7, key);
  }
});

/** More keys than one slice of a hand-over looks at. */
const MANY = Array.from({ length: 9_000 }, (_, at) => `user-${at}`);

/** An agent that has counted three tokens of many keys alone. */
async function counted(network: Network): Promise<Agent> {
  const [agent] = (await network.joined(1)) as [Agent];
  for (const key of MANY) agent.buckets.take(key, 3, TEN, network.clock.now());
  return agent;
}

test("many keys are handed over in slices: checks are decided meanwhile", async (t) => {
  const network = new Network(t);
  const old = await counted(network);
  const joining = network.start();
  network.tell([old, joining]);
  const kept = MANY.filter((key) => old.owns(key));
  assert.ok(limiterOf(old).buckets.keys > kept.length, "some were not looked at in the first turn");
  for (const key of kept.slice(-10)) {
    const answer = old.buckets.take(key, 1, TEN, network.clock.now()) as EngineAnswer;
    assert.equal(answer.outcome, "granted");
  }
  const waiting = joining.take(MANY.find((key) => joining.owns(key)) ?? "", 0, TEN);
  await network.settle();
  assert.equal((await waiting).remaining, 7);
  assert.equal(limiterOf(old).buckets.keys, kept.length);
  assert.equal(joining.group.counts.received, MANY.length - kept.length);
});

test("members that change while keys are handed over get what is theirs, and nothing is lost or counted twice", async (t) => {
  const network = new Network(t);
  const old = await counted(network);
  const agents = [old, network.start()];
  network.tell(agents);
  agents.push(network.start());
  network.tell(agents);
  await network.settle();
  for (const agent of agents) {
    assert.equal(agent.group.joining, false);
    for (const key of MANY.filter((each) => agent.owns(each))) {
      const { remaining } = agent.buckets.take(key, 0, TEN, network.clock.now()) as EngineAnswer;
      assert.equal(remaining, 7, key);
    }
  }
  assert.equal(
    agents.reduce((sum, agent) => sum + limiterOf(agent).buckets.keys, 0),
    MANY.length,
  );
});

test("a copy that arrives while keys are handed over waits, and takes the place of nothing that was counted", async (t) => {
  const network = new Network(t);
  const old = await counted(network);
  const joining = network.start();
  network.tell([old, joining]);
  const limiter = limiterOf(old);
  const { ring } = old.group;
  const hashes = limiter.hashes();
  const [lo, hi] = MANY.map((_, at) => [hashes[2 * at] ?? 0, hashes[2 * at + 1] ?? 0] as const)
    .filter(([low, high]) => ring.members[ring.owner(low, high)]?.id === joining.member.id)
    .at(-1) ?? [0, 0];
  assert.ok(limiter.buckets.read(lo, hi) !== undefined, "it was not looked at yet");
  const { id } = joining.member;
  const copy = (number: number, available: number) =>
    old.group.receive({
      from: id,
      number,
      purpose: "copy",
      last: false,
      moved: [{ kind: "bucket", limiter, lo, hi, available, filledMs: 0 }],
    });
  const applied = [copy(1_000, 10), copy(1_001, 9)];
  assert.ok(applied.every((each) => each instanceof Promise));
  assert.equal(limiter.buckets.read(lo, hi)?.available, 7);
  await network.settle();
  await Promise.all(applied);
  assert.equal(limiterOf(joining).buckets.read(lo, hi)?.available, 7);
  assert.equal(limiter.buckets.read(lo, hi)?.available, 9, "the last one counts");
  assert.equal(copy(1_002, 8), undefined, "now they are applied at once");
  assert.equal(limiter.buckets.read(lo, hi)?.available, 8);
});

test("a copy that waits is out of date when its sender has handed over since", async (t) => {
  const network = new Network(t);
  const old = await counted(network);
  const joining = network.start();
  network.tell([old, joining]);
  const limiter = limiterOf(old);
  const { hash } = old.group.owned;
  hash.of(MANY.find((key) => old.owns(key)) ?? "");
  const { lo, hi } = hash;
  const message = { from: joining.member.id, last: false };
  const bucket = { kind: "bucket", limiter, lo, hi, filledMs: 0 } as const;
  const copy = [{ ...bucket, available: 10 }];
  const waiting = old.group.receive({ ...message, number: 1_000, purpose: "copy", moved: copy });
  assert.ok(waiting instanceof Promise);
  const handedOver = [{ ...bucket, available: 8 }];
  const next = { ...message, number: 1_001, purpose: "hand over", moved: handedOver } as const;
  assert.equal(old.group.receive(next), undefined);
  await waiting;
  assert.equal(limiter.buckets.read(lo, hi)?.available, 5, "three were taken here, two there");
});

const memberOf = (id: string): RingMember => ({ name: id, id, address: id, probe: undefined });

test("an agent that leaves gets nothing back when the new owner of what it handed over goes away", async () => {
  const clock = fakeClock();
  const owned = new OwnedLimiters({ clock, observer: NO_OBSERVER, maxKeys: 10_000 }, [1, 2]);
  const [own, leaver, gone] = ["own", "leaver", "gone"].map(memberOf) as [
    RingMember,
    RingMember,
    RingMember,
  ];
  let ring = new Ring([own, leaver, gone]);
  const asked: string[] = [];
  const handOver = new HandOver({
    id: own.id,
    clock,
    log: silentLog(),
    owned,
    replicas: 1,
    now: () => ({ ring, leaving: false }),
    linkTo: (id) => {
      asked.push(id);
      assert.notEqual(id, leaver.id);
      ring = new Ring([own, leaver]);
      return undefined;
    },
    copy: () => undefined,
  });
  const limiter = owned.plan({ policyName: "policy", name: "limiter" });
  limiter.adopt(TEN);
  const buckets = Array.from({ length: 40 }, (_, lo) => {
    return { kind: "bucket", limiter, lo: lo + 1, hi: 7, available: 3, filledMs: 0 } as const;
  });
  await handOver.deliver(buckets, leaver.id);
  assert.deepEqual(asked, [gone.id], "the one that is gone was asked, and nobody else");
  for (const { lo, hi } of buckets) assert.equal(limiter.buckets.read(lo, hi)?.available, 3);
});

test("what belongs to a member without a link stays where it is, and is not sent for ever", async () => {
  const clock = fakeClock();
  const owned = new OwnedLimiters({ clock, observer: NO_OBSERVER, maxKeys: 10_000 }, [1, 2]);
  const [own, other] = ["own", "other"].map(memberOf) as [RingMember, RingMember];
  const ring = new Ring([own, other]);
  let asked = 0;
  const handOver = new HandOver({
    id: own.id,
    clock,
    log: silentLog(),
    owned,
    replicas: 1,
    copy: () => undefined,
    now: () => ({ ring, leaving: false }),
    linkTo: () => {
      if (++asked > 100) throw new Error("it is asked for ever");
      return undefined;
    },
  });
  const limiter = owned.plan({ policyName: "policy", name: "limiter" });
  limiter.adopt(TEN);
  const buckets = Array.from({ length: 40 }, (_, lo) => {
    return { kind: "bucket", limiter, lo: lo + 1, hi: 7, available: 3, filledMs: 0 } as const;
  });
  await handOver.deliver(buckets);
  for (const { lo, hi } of buckets) assert.equal(limiter.buckets.read(lo, hi)?.available, 3);
  owned.close();
});
