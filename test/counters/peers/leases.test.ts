// Tokens that agents lease of keys which other agents count: decided without asking, never more than there is, also when
// the agent that counts or the one that leases is lost, joined by others, or stops.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { type Agent, Network, type NetworkOptions } from "./network.ts";

const CAPACITY = 100;
/** Never fills, so that every token is counted once. */
const STEADY: BucketParams = { ...TEN_PER_SECOND, capacity: CAPACITY, amount: 0 };
const LEASED = { leases: true };

/** Agents of which the first counts the key and the second leases it: with tokens in hand. */
async function leasing(network: Network, count: number, params = STEADY) {
  const agents = await network.joined(count);
  const owner = agents.find((agent) => agent.owns("ann")) as Agent;
  const [holder, ...others] = agents.filter((agent) => agent !== owner) as [Agent, ...Agent[]];
  for (const { buckets } of agents) buckets.adopt(params);
  const passed = await holder.admits("ann", 20, params);
  assert.equal(passed, 20);
  assert.ok(holder.leases.counts.granted > 0, "spends without asking");
  return { agents, owner, holder, others, passed };
}

/** All that the agents still admit, each asked in turn until none of them admits any more. */
async function rest(network: Network, agents: readonly Agent[], params = STEADY): Promise<number> {
  let passed = 0;
  for (let idle = 0; idle < 3; ) {
    let more = 0;
    for (const agent of agents) more += await agent.admits("ann", 5, params);
    passed += more;
    idle = more === 0 ? idle + 1 : 0;
    // Leases that nobody spends end, and what was refused is asked again.
    await network.passSlowly(2_000);
  }
  return passed;
}

test("most checks of a hot key that another agent counts are decided without asking", async (t) => {
  const network = new Network(t, LEASED);
  const { agents, holder, owner, passed } = await leasing(network, 3);
  const before = network.calls.Take;
  assert.equal(await holder.admits("ann", 10, STEADY), 10);
  assert.ok(
    network.calls.Take - before <= 5,
    `${network.calls.Take - before} messages for 10 checks`,
  );
  assert.equal(await rest(network, agents), CAPACITY - passed - 10);
  assert.ok(owner.leases.counts.own > 0, "the owner counts its own checks in process");
  assert.equal(owner.leases.counts.asked, 0);
});

test("without leases each flow is counted before it passes", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(3);
  const other = agents.find((agent) => !agent.owns("ann")) as Agent;
  assert.equal(await other.admits("ann", 20, STEADY), 20);
  assert.deepEqual(
    { ...other.leases.counts },
    { granted: 0, refused: 0, asked: 20, own: 0, keys: 0, lost: 0 },
  );
  assert.equal(network.calls.Take, 20);
});

test("an agent that is alone counts in process, and asks nobody", async (t) => {
  const network = new Network(t, LEASED);
  const [alone] = (await network.joined(1)) as [Agent];
  assert.equal(await alone.admits("ann", 120, STEADY), CAPACITY);
  assert.deepEqual(
    { ...alone.leases.counts },
    { granted: 0, refused: 0, asked: 0, own: 120, keys: 0, lost: 0 },
  );
  assert.deepEqual(network.calls, { Take: 0, Store: 0 });
});

test("the owner takes nothing that others have leased, and they give it back when it wants it", async (t) => {
  const network = new Network(t, LEASED);
  const { agents, owner, passed } = await leasing(network, 2);
  const own = await owner.admits("ann", 100, STEADY);
  assert.ok(own < CAPACITY - passed, `${own}: not what is leased`);
  assert.equal(own + (await rest(network, agents)), CAPACITY - passed);
});

test("a leaseholder that is killed loses what it leased, and nobody admits it again", async (t) => {
  const network = new Network(t, LEASED);
  const { agents, owner, holder, others, passed } = await leasing(network, 3);
  holder.kill();
  network.tell([owner, ...others]);
  await network.settle();
  const left = agents.filter((agent) => agent !== holder);
  const more = await rest(network, left);
  assert.ok(passed + more <= CAPACITY, `${passed} + ${more}`);
  assert.ok(more > 0);
});

for (const replicas of [1, 2]) {
  test(`an owner that is killed with leases out costs at most one capacity (${replicas} copies)`, async (t) => {
    const network = new Network(t, { ...LEASED, replicas, synchronous: replicas > 1 });
    const { owner, holder, others, passed } = await leasing(network, 3);
    owner.kill();
    network.tell([holder, ...others]);
    await network.settle();
    const more = await rest(network, [holder, ...others]);
    const most = replicas > 1 ? CAPACITY : 2 * CAPACITY;
    assert.ok(passed + more <= most, `${passed} + ${more} of ${most}`);
    assert.ok(more > 0);
  });
}

test("a bucket that moves to an agent that joins counts leased tokens as spent until the lease ends", async (t) => {
  const network = new Network(t, LEASED);
  const { agents, owner, passed } = await leasing(network, 2);
  let all: readonly Agent[] = agents;
  while (owner.owns("ann")) {
    all = [...all, network.start()];
    network.tell(all);
    await network.settle();
  }
  for (const { buckets } of all) buckets.adopt(STEADY);
  const more = await rest(network, all);
  assert.ok(passed + more <= CAPACITY, `${passed} + ${more}`);
  assert.ok(more > 0);
  assert.equal([...owner.group.owned.all][0]?.buckets.leased, 0);
});

test("a bucket that moves fills no further than where the leases of before end", async (t) => {
  const network = new Network(t, LEASED);
  const params = { ...STEADY, amount: 1_000 };
  const { owner, holder, others } = await leasing(network, 3, params);
  // The holder goes on spending what it has; the owner hands over, and 400 tokens per second would fill the rest.
  const [limiter] = [...owner.group.owned.all];
  owner.group.owned.hash.of("ann");
  const { lo, hi } = owner.group.owned.hash;
  const now = network.clock.now();
  const moved = limiter?.buckets.read(lo, hi);
  assert.ok(moved !== undefined && moved.mark > now + 500, `${moved?.mark} at ${now}`);
  await owner.group.leave();
  network.tell([holder, ...others]);
  await network.settle();
  const passed = await holder.admits("ann", 200, params);
  const more = await (others[0] as Agent).admits("ann", 200, params);
  assert.ok(passed + more <= CAPACITY, `${passed} + ${more} in no time`);
});

test("an agent that comes to count a key itself gives its lease back", async (t) => {
  const network = new Network(t, LEASED);
  const { owner, holder, passed } = await leasing(network, 2);
  await owner.group.leave();
  network.tell([holder]);
  await network.settle();
  assert.equal(holder.group.isOnlyMember, true);
  await network.passSlowly(2_000);
  assert.equal(holder.leases.counts.keys, 0, "nothing is followed any more");
  const more = await holder.admits("ann", 100, STEADY);
  assert.ok(passed + more <= CAPACITY && more > 0, `${passed} + ${more}`);
});

test("leased tokens are spent while their owner does not answer, then on_failure answers", async (t) => {
  const network = new Network(t, LEASED);
  const { owner, holder } = await leasing(network, 2);
  owner.frozen = true;
  assert.equal(await holder.passes("ann", STEADY), true);
  await network.pass(1_000);
  const asked = holder.take("ann", 1, STEADY);
  await network.pass(200);
  assert.equal((await asked).outcome, "undecided");
});

test("lazy synchronisation: flows pass on credit, and what is owed is paid", async (t) => {
  const network = new Network(t, { leases: false });
  const params = { ...STEADY, amount: 10, lazySyncs: 4 };
  const agents = await network.joined(3);
  const [owner] = agents.filter((agent) => agent.owns("ann")) as [Agent];
  const others = agents.filter((agent) => agent !== owner) as [Agent, Agent];
  for (const { buckets } of agents) buckets.adopt(params);
  let passed = 0;
  for (const agent of others) passed += await agent.admits("ann", 150, params);
  assert.ok(passed > CAPACITY && passed <= 3 * CAPACITY, `${passed}: each has a credit`);
  assert.ok(network.calls.Take < 20, `${network.calls.Take} messages`);
  await network.pass(300);
  for (const agent of others) await agent.take("ann", 1, params);
  await network.pass(300);
  assert.equal(await owner.passes("ann", params), false, "the bucket owes");
});

const SYNCHRONOUS: NetworkOptions = { ...LEASED, replicas: 2, synchronous: true };

test("a lease is granted only when a copy knows of it", async (t) => {
  const network = new Network(t, SYNCHRONOUS);
  const { owner, holder, others, passed } = await leasing(network, 3);
  const copies = [holder, ...others].map(({ group }) => {
    const [limiter] = [...group.owned.all];
    group.owned.hash.of("ann");
    return limiter?.buckets.read(group.owned.hash.lo, group.owned.hash.hi)?.available;
  });
  const [limiter] = [...owner.group.owned.all];
  owner.group.owned.hash.of("ann");
  const { lo, hi } = owner.group.owned.hash;
  const state = limiter?.buckets.read(lo, hi);
  assert.ok(state !== undefined && state.available < CAPACITY - passed, "leased tokens are spent");
  assert.ok(copies.includes(state.available), `${copies} and ${state.available}`);
});

test("an agent that begins to count a key while flows wait for it leases nothing from itself", async (t) => {
  const network = new Network(t, LEASED);
  const [old] = (await network.joined(1)) as [Agent];
  const joining = network.start();
  // The link is cut, so the keys that the new agent is to count cannot be handed over at first.
  network.cut.add(`${old.member.id}>${joining.member.id}`);
  network.tell([old, joining]);
  await network.settle();
  await network.pass(60);
  assert.equal(joining.group.joining, true);
  const names = Array.from({ length: 40 }, (_, at) => `user-${at}`);
  const key = names.find((name) => joining.owns(name)) ?? "";
  const waiting = Array.from({ length: 20 }, () => joining.take(key, 1, STEADY));
  network.cut.clear();
  await network.pass(40);
  const answers = await Promise.all(waiting);
  assert.deepEqual(new Set(answers.map(({ outcome }) => outcome)), new Set(["granted"]));
  const [limiter] = joining.group.owned.all;
  assert.equal(limiter?.buckets.leased, 0);
  assert.equal((await joining.take(key, 0, STEADY)).remaining, CAPACITY - 20);
});
