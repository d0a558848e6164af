// Copies of buckets at other agents: the cost of the loss of an agent, with copies and without, and of waiting for them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CALL_MS, Network } from "./network.ts";
import { drain, first, KEYS, limiterOf, ownerOf, TEN } from "./tokens.ts";

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
  const waiting = Promise.all([counts.passes("ann", TEN), asks.passes("ann", TEN)]);
  await network.settle();
  await network.pass(60);
  assert.deepEqual(await waiting, [true, true]);
  assert.deepEqual(await Promise.all([counts.passes("ann", TEN), asks.passes("ann", TEN)]), [
    true,
    true,
  ]);
  assert.deepEqual(asks.away, [], "the one that counts is not taken for away");
  assert.ok(counts.group.links.copiesLost > 0);
  copies.frozen = false;
  await network.pass(CALL_MS);
  const { copiesLost } = counts.group.links;
  assert.equal(await counts.passes("ann", TEN), true);
  assert.equal(counts.group.links.copiesLost, copiesLost, "once it answers, it has copies again");
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
  assert.equal(owner.group.links.copiesLost, 1);
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
  assert.equal(owner.group.links.copiesLost, 1);
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
