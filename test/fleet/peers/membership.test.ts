// Agents that come, go, fail and lose sight of each other: what was counted stays counted, and the bounds hold that
// docs/counters.md states.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { PeerBuckets } from "#fleet/peers/buckets.ts";
import { OwnedLimiters } from "#fleet/peers/owned-limiters.ts";
import { type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { HandOver } from "../../../src/fleet/peers/exchange/hand-over.ts";
import { Ring, type RingMember } from "../../../src/fleet/peers/membership/ring.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { fakeClock } from "../../kit/clock.ts";
import { silentLog } from "../../kit/sluice/log.ts";
import { type Agent, CALL_MS, Network } from "./network.ts";

/** Ten tokens that are never filled again: every token that is admitted beyond them is one too many. */
const TEN = { ...TEN_PER_SECOND, amount: 0 };
const KEYS = Array.from({ length: 40 }, (_, at) => `user-${at}`);

const first = (agents: readonly Agent[]): Agent => {
  const [agent] = agents;
  if (agent === undefined) throw new Error("no agents");
  return agent;
};
const ownerOf = (agents: readonly Agent[], key: string) => {
  const owner = agents.find((agent) => agent.owns(key));
  if (owner === undefined) throw new Error(`nobody owns ${key}`);
  return owner;
};
const all = <T>(work: readonly Promise<T>[]) => Promise.all(work);

/** Takes `count` of each key, asking the agents in turn; returns what was granted. */
async function drain(agents: readonly Agent[], count: number, params = TEN) {
  const granted = await all(
    KEYS.flatMap((key, at) =>
      Array.from({ length: count }, async (_, n) => {
        const agent = agents[(at + n) % agents.length] ?? first(agents);
        return Number(await agent.passes(key, params));
      }),
    ),
  );
  return granted.reduce((sum, each) => sum + each, 0);
}

test("all agents admit one capacity together, and takes of one turn travel in one message", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(3);
  network.calls.Take = 0;
  assert.equal(await drain(agents, 12), 10 * KEYS.length);
  assert.ok(network.calls.Take <= 6, `${network.calls.Take} messages for 480 takes`);
});

test("the agent that counts a key answers in the same turn", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(3);
  const owner = ownerOf(agents, "ann");
  assert.equal("outcome" in owner.buckets.take("ann", 1, TEN, network.clock.now()), true);
  const [other] = agents.filter((agent) => agent !== owner);
  assert.equal("outcome" in (other?.buckets.take("ann", 1, TEN, network.clock.now()) ?? {}), false);
});

test("an agent that joins takes over what was counted, and so do others when it leaves", async (t) => {
  const network = new Network(t);
  const agents = [...(await network.joined(2))];
  assert.equal(await drain(agents, 4), 4 * KEYS.length);
  const third = network.start();
  agents.push(third);
  network.tell(agents);
  await network.settle();
  const owned = KEYS.filter((key) => third.owns(key)).length;
  assert.ok(owned > 0);
  assert.equal(third.group.counts.received, owned, "exactly what it counts now");
  assert.equal(await drain(agents, 3), 3 * KEYS.length);
  await third.group.leave();
  third.kill();
  network.tell(agents.slice(0, 2));
  await network.settle();
  assert.equal(await drain(agents.slice(0, 2), 10), 3 * KEYS.length, "ten of each key in all");
});

test("takes on their way to an agent that leaves are decided, by it or by the next one", async (t) => {
  const network = new Network(t);
  const [leaving, other, third] = await network.joined(3);
  assert.ok(leaving !== undefined && other !== undefined && third !== undefined);
  const before = KEYS.map((key) => other.passes(key, TEN));
  const left = leaving.group.leave();
  const meanwhile = KEYS.map((key) => third.passes(key, TEN));
  await network.settle();
  await network.pass(10);
  assert.deepEqual(new Set(await all([...before, ...meanwhile])), new Set([true]));
  await left;
  assert.equal(await drain([other, third], 9), 8 * KEYS.length, "each was counted once");
  assert.deepEqual(
    [other, third].map(({ away }) => away),
    [[], []],
  );
});

test("takes that wait while an agent leaves are decided with what it handed over", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const leaving = ownerOf(agents, "ann");
  const other = first(agents.filter((agent) => agent !== leaving));
  assert.equal((await leaving.take("ann", 10, TEN)).outcome, "granted");
  const waiting = other.passes("ann", TEN);
  // It leaves when the question is on its way, so that it says that it does not count the key, and then hands it over.
  await turn();
  const left = leaving.group.leave();
  assert.equal(await waiting, false);
  assert.equal(network.calls.Take, 1, "it was asked once, and decided by whoever asked");
  await left;
});

test("takes wait while a key changes hands, whoever hears of the change first", async (t) => {
  for (const order of [0, 1, 2]) {
    const network = new Network(t);
    const agents = [...(await network.joined(2))];
    assert.equal(await drain(agents, 6), 6 * KEYS.length);
    const third = network.start();
    agents.push(third);
    const told = [...agents.slice(order), ...agents.slice(0, order)];
    const taking = drain(agents.slice(0, 2), 6);
    for (const agent of told) {
      network.tell(agents, [agent]);
      await network.pass(10);
    }
    await network.pass(10);
    assert.equal(await taking, 4 * KEYS.length, `order ${order}`);
    assert.equal(await drain(agents, 3), 0);
  }
});

test("agents that start at the same time and counted alone share what they counted (D-11)", async (t) => {
  const network = new Network(t);
  const agents = [network.start(), network.start(), network.start()];
  // Each is alone as long as it knows of no other: all of them admit a capacity.
  for (const agent of agents) network.tell([agent], [agent]);
  assert.equal(await drain(agents, 9), 9 * KEYS.length);
  network.tell(agents);
  await network.settle();
  assert.equal(await drain(agents, 9), KEYS.length);
  assert.ok(agents.every(({ group }) => !group.alone && !group.joining));
});

test("a lone start heals however late the others appear: nobody gives up joining (D-11)", async (t) => {
  const network = new Network(t);
  const agents = [network.start(), network.start()];
  for (const agent of agents) network.tell([agent], [agent]);
  await network.pass(3_600_000);
  network.tell(agents);
  await network.settle();
  assert.equal(await drain(agents, 12), 10 * KEYS.length);
});

test("losing the only copy of a key costs one capacity of that key, and nothing of others", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(3);
  assert.equal(await drain(agents, 12), 10 * KEYS.length);
  const lost = first(agents);
  const owned = KEYS.filter((key) => lost.owns(key)).length;
  assert.ok(owned > 0);
  lost.kill();
  const rest = agents.slice(1);
  network.tell(rest);
  await network.settle();
  assert.equal(await drain(rest, 12), 10 * owned);
});

test("with a second copy the loss of an agent costs nothing, wherever its restart falls", async (t) => {
  for (const synchronous of [true, false]) {
    const network = new Network(t, { replicas: 2, synchronous });
    const agents = [...(await network.joined(3))];
    assert.equal(await drain(agents, 6), 6 * KEYS.length);
    await network.settle();
    const lost = first(agents);
    lost.kill();
    const rest = agents.slice(1);
    // It is back under its name before the store has forgotten the process that is gone.
    const restarted = network.start(lost.member.name);
    network.tell([restarted, ...rest]);
    await network.settle();
    assert.equal(await drain([restarted, ...rest], 2), 2 * KEYS.length);
    await network.settle();
    restarted.kill();
    network.tell(rest);
    await network.settle();
    assert.equal(await drain(rest, 12), 2 * KEYS.length, `synchronous: ${synchronous}`);
  }
});

test("an agent that dies unnoticed before another one joins leaves its copies", async (t) => {
  const network = new Network(t, { replicas: 2 });
  const agents = await network.joined(3);
  assert.equal(await drain(agents, 6), 6 * KEYS.length);
  await network.settle();
  const lost = first(agents);
  lost.kill();
  const joining = network.start();
  const rest = [...agents.slice(1), joining];
  // The one that is lost cannot copy again what it counts.
  network.tell([lost, ...rest], rest);
  await network.settle();
  network.tell(rest, rest);
  await network.settle();
  const kept = KEYS.filter((key) => !joining.owns(key));
  assert.ok(kept.length > 0);
  for (const key of kept) assert.equal(await ownerOf(rest, key).admits(key, 9, TEN), 4, key);
});

test("copies are not counted as what was taken when their owner hands over and leaves", async (t) => {
  const network = new Network(t, { replicas: 2 });
  const agents = await network.joined(3);
  assert.equal(await drain(agents, 6), 6 * KEYS.length);
  await network.settle();
  const leaving = first(agents);
  await leaving.group.leave();
  const rest = agents.slice(1);
  network.tell(rest);
  await network.settle();
  assert.equal(await drain(rest, 12), 4 * KEYS.length);
});

test("synchronous copies are written before the answer", async (t) => {
  const network = new Network(t, { replicas: 2, synchronous: true });
  const agents = await network.joined(2);
  const owner = ownerOf(agents, "ann");
  const [other] = agents.filter((agent) => agent !== owner);
  assert.equal((await owner.take("ann", 7, TEN)).outcome, "granted");
  owner.kill();
  network.tell(other === undefined ? [] : [other], other === undefined ? [] : [other]);
  assert.equal((await other?.take("ann", 0, TEN))?.remaining, 3);
});

test("an agent that is frozen delays one answer by a part of the time limit, and its copies are lost", async (t) => {
  const network = new Network(t, { replicas: 2, synchronous: true });
  const agents = await network.joined(3);
  const { owned, ring } = first(agents).group;
  const { lo, hi } = owned.hashOf("ann", { keylessHash: 0 });
  const [counts, copies, asks] = ring.first(3, lo, hi).map(({ id }) => network.agents.get(id));
  assert.ok(counts !== undefined && copies !== undefined && asks !== undefined);
  copies.frozen = true;
  const waiting = all([counts.passes("ann", TEN), asks.passes("ann", TEN)]);
  await network.settle();
  await network.pass(60);
  assert.deepEqual(await waiting, [true, true]);
  assert.deepEqual(await all([counts.passes("ann", TEN), asks.passes("ann", TEN)]), [true, true]);
  assert.deepEqual(asks.away, [], "the one that counts is not taken for away");
  assert.ok(counts.group.neighbours.copiesLost > 0);
  copies.frozen = false;
  await network.pass(CALL_MS);
  const { copiesLost } = counts.group.neighbours;
  assert.equal(await counts.passes("ann", TEN), true);
  assert.equal(
    counts.group.neighbours.copiesLost,
    copiesLost,
    "once it answers, it has copies again",
  );
  counts.kill();
  network.tell([copies, asks], [copies, asks]);
  assert.equal((await copies.take("ann", 0, TEN)).remaining, 5);
});

test("a copy that did not arrive is in the next message", async (t) => {
  const network = new Network(t, { replicas: 2 });
  const agents = await network.joined(2);
  const owner = ownerOf(agents, "ann");
  const other = first(agents.filter((agent) => agent !== owner));
  const next = KEYS.find((key) => owner.owns(key)) ?? "";
  network.cut.add(`${owner.member.id}>${other.member.id}`);
  await owner.take("ann", 7, TEN);
  await network.settle();
  assert.equal(owner.group.neighbours.copiesLost, 1);
  network.cut.clear();
  await owner.take(next, 1, TEN);
  await network.settle();
  owner.kill();
  network.tell([other], [other]);
  assert.equal((await other.take("ann", 0, TEN)).remaining, 3);
  assert.equal((await other.take(next, 0, TEN)).remaining, 9);
});

test("an error while copies are made is logged, and stops neither answers nor the next copies", async (t) => {
  const network = new Network(t, { replicas: 2, synchronous: true });
  const agents = await network.joined(2);
  const owner = ownerOf(agents, "ann");
  const other = first(agents.filter((agent) => agent !== owner));
  assert.equal(await owner.passes("ann", TEN), true);
  const failing = t.mock.method(limiterOf(owner).buckets, "read", () =>
    assert.fail("a bad bucket"),
  );
  assert.equal(await owner.passes("ann", TEN), true);
  assert.equal(failing.mock.callCount(), 1);
  failing.mock.restore();
  assert.equal(owner.group.neighbours.copiesLost, 1);
  assert.match(
    owner.lines.map(({ level, message }) => `${level}: ${message}`).join(),
    /error: peer agent-[01]:1 could not be sent copies/,
  );
  assert.equal(await owner.passes("ann", TEN), true);
  owner.kill();
  network.tell([other], [other]);
  assert.equal((await other.take("ann", 0, TEN)).remaining, 7);
});

test("an agent that only asked about a limiter yet can read the copies that it gets", async (t) => {
  const network = new Network(t, { replicas: 2 });
  const agents = await network.joined(2);
  const owner = ownerOf(agents, "ann");
  const other = first(agents.filter((agent) => agent !== owner));
  await other.take("ann", 7, TEN);
  await network.settle();
  const { owned } = other.group;
  owned.hash.of("ann");
  const { lo, hi } = owned.hash;
  const [limiter] = [...owned.all];
  assert.equal(limiter?.buckets.read(lo, hi)?.available, 3);
});

test("a take that waits for a change of hands has one time limit, however often it is sent", async (t) => {
  const network = new Network(t);
  const [asking, joining, silent] = [network.start(), network.start(), network.start()];
  silent.kill();
  network.tell([asking], [asking]);
  // The one that joins counts nothing before the silent one has handed over.
  network.tell([asking, joining, silent], [asking, joining]);
  await network.settle();
  const key = KEYS.find((each) => joining.owns(each)) ?? "";
  const outcomes: string[] = [];
  const taking = asking.take(key, 1, TEN).then(({ outcome }) => outcomes.push(outcome));
  await network.settle();
  for (let ms = 0; ms < 80; ms += 10) await network.pass(10);
  joining.frozen = true;
  await network.pass(10);
  assert.deepEqual(outcomes, []);
  await network.pass(10);
  assert.deepEqual(outcomes, ["undecided"]);
  await taking;
});

test("an owner that is frozen costs one time limit; then its keys are undecided at once, until it answers", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const frozen = ownerOf(agents, "ann");
  const [asking] = agents.filter((agent) => agent !== frozen);
  if (asking === undefined) throw new Error("no second agent");
  frozen.frozen = true;
  const waits = all([asking.take("ann", 1, TEN), asking.take("ann", 1, TEN)]);
  await network.settle();
  await network.pass(100);
  assert.deepEqual(
    (await waits).map(({ outcome }) => outcome),
    ["undecided", "undecided"],
  );
  const { Take } = network.calls;
  assert.equal((await asking.take("ann", 1, TEN)).outcome, "undecided");
  assert.equal(network.calls.Take, Take, "nobody is asked");
  frozen.frozen = false;
  await network.pass(1_000);
  assert.equal((await asking.take("ann", 1, TEN)).outcome, "granted");
  const lines = asking.lines.map(({ message }) => message);
  assert.equal(lines.filter((line) => /is away, on_failure answers/.test(line)).length, 1);
  assert.equal(lines.filter((line) => /answers again/.test(line)).length, 1);
  const { away, back } = asking.group.neighbours.requests;
  assert.deepEqual([away, back], [1, 1]);
});

test("what both sides of a partition admitted is counted when it heals", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const [a, b] = agents as [Agent, Agent];
  assert.equal(await drain(agents, 2), 2 * KEYS.length);
  // The store sees b only; a goes on with what it knew, and counts its own keys.
  network.cut.add(`${a.member.id}>${b.member.id}`).add(`${b.member.id}>${a.member.id}`);
  network.tell([b], [b]);
  await network.settle();
  const owned = KEYS.filter((key) => a.owns(key));
  for (const key of owned) assert.equal(await a.admits(key, 3, TEN), 3);
  for (const key of owned) assert.equal(await b.admits(key, 4, TEN), 4);
  network.cut.clear();
  network.tell([a, b], [b]);
  await network.settle();
  for (const key of owned) {
    assert.equal(await b.admits(key, 9, TEN), 1, "ten, less 2 before, 3 there and 4 here");
  }
});

test("a message that arrives twice is applied once", async (t) => {
  const network = new Network(t);
  const agents = [...(await network.joined(1))];
  assert.equal(await drain(agents, 3), 3 * KEYS.length);
  const second = network.start();
  agents.push(second);
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
  const network = new Network(t);
  const agents = [...(await network.joined(1))];
  assert.equal(await drain(agents, 3), 3 * KEYS.length);
  const second = network.start();
  agents.push(second);
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

test("an agent that cannot follow a change of members logs it, and follows the next one", async (t) => {
  const network = new Network(t);
  const [agent] = (await network.joined(1)) as [Agent];
  const [second, third] = [network.start(), network.start()];
  const { group } = agent;
  const failing = t.mock.method(group.neighbours, "set", () => assert.fail("no file is left"));
  group.setMembers([agent.member, second.member]);
  group.exclude(second.member.id, "gone");
  group.include(second.member.id);
  await network.settle();
  failing.mock.restore();
  const line = "a change of the members could not be followed";
  const errors = agent.lines.filter(({ level }) => level === "error");
  assert.deepEqual(
    errors.map(({ message }) => message),
    [line, line],
    "without the second agent there is nothing to follow",
  );
  network.tell([agent, second, third]);
  await network.settle();
  assert.equal(await drain([agent, second, third], 12), 10 * KEYS.length);
});

test("an agent that joins waits no longer for one that the store has forgotten", async (t) => {
  const network = new Network(t);
  const [silent, other] = (await network.joined(2)) as [Agent, Agent];
  silent.kill();
  const joining = network.start();
  network.tell([silent, other, joining], [other, joining]);
  await network.settle();
  assert.equal(joining.group.joining, true);
  network.tell([other, joining], [other, joining]);
  assert.equal(joining.group.joining, false);
  assert.equal(joining.group.counts.unheard, 0);
});

test("an agent that joins does not wait for ever for one that does not answer", async (t) => {
  const network = new Network(t);
  const [silent] = (await network.joined(1)) as [Agent];
  silent.kill();
  const joining = network.start();
  network.tell([silent, joining], [joining]);
  const key = KEYS.find((each) => joining.owns(each)) ?? "";
  const early = joining.take(key, 1, TEN);
  await network.pass(100);
  assert.equal((await early).outcome, "undecided");
  await network.pass(2_000);
  assert.equal((await joining.take(key, 1, TEN)).outcome, "granted");
  assert.equal(joining.group.counts.unheard, 1);
  assert.match(
    joining.lines.map(({ message }) => message).join("\n"),
    /no hand-over from agent-0:1/,
  );
});

test("what is handed over before an agent hears that it is a member is not waited for again", async (t) => {
  const network = new Network(t);
  const [first] = (await network.joined(1)) as [Agent];
  assert.equal(await drain([first], 4), 4 * KEYS.length);
  const joining = network.start();
  const all = [first, joining];
  network.tell(all, [first]);
  await network.settle();
  // It hears of the other one first, then of itself.
  network.tell([first], [joining]);
  network.tell(all, [joining]);
  await network.settle();
  assert.equal(joining.group.joining, false);
  assert.equal(joining.group.counts.unheard, 0);
  assert.equal(await drain(all, 12), 6 * KEYS.length);
});

test("an agent that drops out of the group waits for the others when it joins again", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const [a, b] = agents as [Agent, Agent];
  network.tell([a]);
  await network.settle();
  assert.equal(await drain([a], 4), 4 * KEYS.length);
  network.cut.add(`${a.member.id}>${b.member.id}`);
  network.tell([a, b]);
  await network.settle();
  assert.equal(b.group.joining, true);
  network.cut.clear();
  await network.pass(100);
  assert.equal(b.group.joining, false);
  assert.equal(await drain(agents, 12), 6 * KEYS.length);
});

test("who looked as if it had ended is taken back when it answers; who has left is not", async (t) => {
  const network = new Network(t);
  const [a, b, c] = (await network.joined(3)) as [Agent, Agent, Agent];
  a.group.exclude(b.member.id, "gone");
  await network.settle();
  assert.deepEqual(a.group.excluded, [{ name: b.member.name, why: "gone" }]);
  assert.equal(a.group.ring.find(b.member.id), undefined);
  a.group.include(b.member.id);
  await network.settle();
  assert.deepEqual(a.group.excluded, []);
  assert.notEqual(a.group.ring.find(b.member.id), undefined);

  // The process of one that leaves answers probes until it ends.
  await c.group.leave();
  a.group.include(c.member.id);
  await network.settle();
  assert.deepEqual(a.group.excluded, [{ name: c.member.name, why: "left" }]);
  // Nor does it come back when its process seems to end and answers once more.
  a.group.exclude(c.member.id, "gone");
  a.group.include(c.member.id);
  await network.settle();
  assert.deepEqual(a.group.excluded, [{ name: c.member.name, why: "left" }]);
  assert.equal(a.group.ring.find(c.member.id), undefined);
  const lines = a.lines.map(({ message }) => message).join("\n");
  assert.match(lines, /peer agent-1:1 looks as if it had ended, others count its keys/);
  assert.match(lines, /peer agent-1:1 is there after all, it counts its keys again/);
  assert.match(lines, /peer agent-2:1 has left, others count its keys/);
  assert.doesNotMatch(lines, /agent-2:1 is there after all/);
});

test("until an agent is ready it decides nothing: it would count apart from the others", async (t) => {
  const network = new Network(t);
  const { group, buckets, slots } = network.start();
  const now = network.clock.now();
  const params = { max: 1, maxInflightMs: 1_000 };
  group.ready = false;
  buckets.adopt(TEN);
  assert.equal(group.alone, false);
  assert.equal(buckets.peek("ann", 1, TEN, now).outcome, "undecided");
  assert.equal(buckets.take("ann", 1, TEN, now), UNDECIDED);
  assert.equal(buckets.take(undefined, 1, TEN, now), UNDECIDED);
  assert.equal(buckets.giveBack("ann", 1, "", TEN), false);
  assert.equal(slots.peek("ann", 1, params, now).outcome, "undecided");
  assert.equal(slots.take("ann", 1, params, now), UNDECIDED);
  assert.equal(slots.giveBack("ann", 1, randomUUID(), params), false);
  group.ready = true;
  assert.equal(buckets.peek("ann", 1, TEN, now).outcome, "granted");
  assert.equal((await network.start().takeSlot("ann", 1, params)).outcome, "granted");
});

test("requests that began before the end of their limiter are counted, and do not plan it again", async (t) => {
  const network = new Network(t);
  const { group, buckets, slots } = network.start();
  const params = { max: 2, maxInflightMs: 1_000 };
  group.ready = true;
  buckets.adopt(TEN);
  slots.adopt(params);
  const { owned } = group;
  const [limiter] = [...owned.all];
  const taken = slots.take("ann", 1, params, network.clock.now());
  assert.ok(limiter !== undefined && "outcome" in taken);
  const { id } = taken;
  buckets.close();
  slots.close();
  const now = network.clock.now();
  const { outcome } = buckets.take("ann", 1, TEN, now) as EngineAnswer;
  assert.equal(outcome, "granted");
  assert.equal(limiter.buckets.peek("ann", 0, TEN, now).remaining, 9);
  assert.equal(buckets.giveBack("ann", 1, "", TEN), true);
  assert.equal(limiter.buckets.peek("ann", 0, TEN, now).remaining, 10);
  assert.equal(limiter.planned, 0);
  assert.equal((slots.peek("ann", 1, params, now) as EngineAnswer).current, 1);
  assert.equal(owned.slots.known({ policyName: "policy", name: "slots" }).planned, 0);
  assert.equal(slots.giveBack("ann", 1, id, params), true);
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
    const { remaining } = staying.buckets.peek(key, 0, TEN, network.clock.now());
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

/** The only limiter of an agent. */
const limiterOf = ({ group }: Agent) => [...group.owned.all][0] ?? assert.fail("no limiter");

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
