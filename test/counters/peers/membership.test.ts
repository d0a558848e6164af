// Agents that come, go, fail and lose sight of each other: what was counted stays counted, and the bounds hold that
// docs/counters.md states.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { type Agent, Network } from "./network.ts";
import { drain, first, KEYS, ownerOf, TEN } from "./tokens.ts";

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
  assert.deepEqual(new Set(await Promise.all([...before, ...meanwhile])), new Set([true]));
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
  assert.ok(agents.every(({ group }) => !group.isOnlyMember && !group.joining));
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
  const waits = Promise.all([asking.take("ann", 1, TEN), asking.take("ann", 1, TEN)]);
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
  assert.equal(lines.filter((line) => line === "opened a link to a peer").length, 1);
  const { away, back } = asking.group.links.requests;
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

test("an agent that cannot follow a change of members logs it, and follows the next one", async (t) => {
  const network = new Network(t);
  const [agent] = (await network.joined(1)) as [Agent];
  const [second, third] = [network.start(), network.start()];
  const { group } = agent;
  const failing = t.mock.method(group.links, "set", () => assert.fail("no file is left"));
  group.members.set([agent.member, second.member]);
  group.members.exclude(second.member.id, "gone");
  group.members.include(second.member.id);
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

test("a member that is announced under another name owns keys by that name", async (t) => {
  const network = new Network(t);
  const [a, b] = (await network.joined(2)) as [Agent, Agent];
  const renamed = { ...b.member, name: "renamed:1" };
  a.group.members.set([a.member, renamed]);
  await network.settle();
  assert.deepEqual(a.group.ring.find(renamed.id), renamed);
});

test("who looked as if it had ended is taken back when it answers; who has left is not", async (t) => {
  const network = new Network(t);
  const [a, b, c] = (await network.joined(3)) as [Agent, Agent, Agent];
  a.group.members.exclude(b.member.id, "gone");
  await network.settle();
  assert.deepEqual(a.group.members.excluded, [{ name: b.member.name, why: "gone" }]);
  assert.equal(a.group.ring.find(b.member.id), undefined);
  a.group.members.include(b.member.id);
  await network.settle();
  assert.deepEqual(a.group.members.excluded, []);
  assert.notEqual(a.group.ring.find(b.member.id), undefined);

  // The process of one that leaves answers probes until it ends.
  await c.group.leave();
  a.group.members.include(c.member.id);
  await network.settle();
  assert.deepEqual(a.group.members.excluded, [{ name: c.member.name, why: "left" }]);
  // Nor does it come back when its process seems to end and answers once more.
  a.group.members.exclude(c.member.id, "gone");
  a.group.members.include(c.member.id);
  await network.settle();
  assert.deepEqual(a.group.members.excluded, [{ name: c.member.name, why: "left" }]);
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
  assert.equal(group.isOnlyMember, false);
  assert.equal(buckets.take("ann", 1, TEN, now), UNDECIDED);
  assert.equal(buckets.take(undefined, 1, TEN, now), UNDECIDED);
  assert.equal(buckets.giveBack("ann", 1, "", TEN), false);
  assert.equal(slots.take("ann", 1, params, now), UNDECIDED);
  assert.equal(slots.giveBack("ann", 1, randomUUID(), params), false);
  group.ready = true;
  assert.equal((buckets.take("ann", 1, TEN, now) as EngineAnswer).outcome, "granted");
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
  assert.equal(limiter.buckets.take("ann", 0, TEN, now).remaining, 9);
  assert.equal(buckets.giveBack("ann", 1, "", TEN), true);
  assert.equal(limiter.buckets.take("ann", 0, TEN, now).remaining, 10);
  assert.equal(limiter.planned, 0);
  assert.equal((slots.take("ann", 0, params, now) as EngineAnswer).current, 1);
  assert.equal(owned.slots.known({ policyName: "policy", name: "slots" }).planned, 0);
  assert.equal(slots.giveBack("ann", 1, id, params), true);
});
