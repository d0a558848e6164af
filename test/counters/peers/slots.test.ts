// Concurrency slots that agents count for each other: the suite of all engines, agents that come, go and fail, and random
// schedules.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { mostSlots } from "#counters/slot-ends.ts";
import { slotSuite } from "../../flow/counters/slot-suite.ts";
import { type Agent, Network } from "./network.ts";

const here = { after: (end: () => void) => after(end) };

for (const count of [1, 3]) {
  slotSuite(`peers, ${count} of them`, async () => {
    const network = new Network(here);
    const agents = await network.joined(count);
    let asked = 0;
    const next = () => {
      const agent = agents[asked++ % count];
      if (agent === undefined) throw new Error("no agents");
      return agent;
    };
    return {
      take(value, want, params) {
        for (const { slots } of agents) slots.adopt(params);
        return next().takeSlot(value, want, params);
      },
      end: (value, id, params) => next().endSlot(value, id, params),
      advance: (ms) => network.clock.advance(ms),
    };
  });
}

const LIMIT = { max: 10, maxInflightMs: 60_000 };

function parted(agents: readonly Agent[], key: string): { owner: Agent; other: Agent } {
  const owner = agents.find((agent) => agent.owns(key));
  const other = agents.find((agent) => !agent.owns(key));
  assert.ok(owner !== undefined && other !== undefined);
  return { owner, other };
}

/** Ids of the slots that so many takes get, asking the agents in turn. */
async function take(agents: readonly Agent[], key: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const answer = await agents[n % agents.length]?.takeSlot(key, 1, LIMIT);
    if (answer?.outcome === "granted") ids.push(answer.id);
  }
  return ids;
}

test("an agent that asks with other numbers than those of the agent that counts changes nothing", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const { owner, other } = parted(agents, "ann");
  assert.equal((await take([owner], "ann", 12)).length, 10);
  await network.pass(2_000);
  const asked = await other.takeSlot("ann", 1, { max: 20, maxInflightMs: 1_000 });
  assert.equal(asked.outcome, "refused");
  assert.equal(owner.group.owned.slots.count, 10);
});

test("slots move with their keys when agents join and leave, with their age", async (t) => {
  const network = new Network(t);
  const agents = [...(await network.joined(2))];
  const keys = Array.from({ length: 20 }, (_, at) => `user-${at}`);
  const held = new Map<string, string[]>();
  for (const key of keys) held.set(key, await take(agents, key, 6));
  await network.pass(40_000);
  const third = network.start();
  agents.push(third);
  network.tell(agents);
  await network.settle();
  const moved = keys.filter((key) => third.owns(key));
  assert.ok(moved.length > 0);
  assert.equal(third.group.counts.received, 6 * moved.length);
  for (const key of keys) assert.equal((await take(agents, key, 12)).length, 4, key);
  for (const key of keys) {
    const [first = ""] = held.get(key) ?? [];
    assert.equal(await agents[0]?.endSlot(key, first, LIMIT), true);
    assert.equal(await agents[1]?.endSlot(key, first, LIMIT), false);
  }
  await third.group.leave();
  third.kill();
  agents.pop();
  network.tell(agents);
  await network.settle();
  for (const key of keys) assert.equal((await take(agents, key, 12)).length, 1, key);
  // The first ones were taken 60 seconds ago, the others 20.
  await network.pass(20_000);
  for (const key of keys) assert.equal((await take(agents, key, 12)).length, 5, key);
});

test("agents that counted alone count together when they meet, and older slots expire first", async (t) => {
  const network = new Network(t);
  const agents = [network.start(), network.start()];
  for (const agent of agents) network.tell([agent], [agent]);
  const keys = Array.from({ length: 20 }, (_, at) => `user-${at}`);
  const ids = new Map<string, string>();
  for (const agent of agents) {
    for (const key of keys) ids.set(key, (await take([agent], key, 5)).at(-1) ?? "");
    await network.pass(30_000);
  }
  network.tell(agents);
  await network.settle();
  for (const key of keys) assert.equal((await take(agents, key, 10)).length, 5, key);
  for (const [key, id] of ids) {
    assert.equal(await agents[0]?.endSlot(key, id, LIMIT), true, "taken 30 seconds ago");
    assert.equal((await take(agents, key, 10)).length, 1, key);
  }
});

test("the loss of the agent that counts a key costs one limit of that key; its own slots stay counted elsewhere", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(3);
  const { owner, other } = parted(agents, "ann");
  const keys = Array.from({ length: 20 }, (_, at) => `user-${at}`);
  for (const key of ["ann", ...keys]) assert.equal((await take([owner], key, 12)).length, 10);
  owner.kill();
  const left = agents.filter((agent) => agent !== owner);
  const kept = keys.filter((key) => !owner.owns(key));
  network.tell(left, left);
  await network.settle();
  assert.equal((await take([other], "ann", 12)).length, 10, "one limit more, and no more");
  for (const key of kept) {
    assert.deepEqual(await take(left, key, 1), [], "its flows go on at the service");
  }
  await network.pass(60_000);
  for (const key of kept) assert.equal((await take(left, key, 12)).length, 10, key);
});

test("D-10: a take whose reply is lost or late holds no slot", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const { owner, other } = parted(agents, "ann");
  network.cut.add(`${owner.member.id}>${other.member.id}`);
  assert.equal((await other.takeSlot("ann", 1, LIMIT)).outcome, "undecided");
  assert.equal((await owner.takeSlot("ann", 0, LIMIT)).current, 1, "it was taken");
  assert.equal((await other.takeSlot("ann", 1, LIMIT)).outcome, "undecided", "it is away");
  network.cut.clear();
  await network.pass(1_000);
  assert.equal((await owner.takeSlot("ann", 0, LIMIT)).current, 0, "it was ended");
  const pending = other.slots.take("ann", 1, LIMIT, network.clock.now());
  assert.ok("cancel" in pending);
  pending.cancel();
  await network.settle();
  assert.equal((await owner.takeSlot("ann", 0, LIMIT)).current, 0);
});

test("flows that end while the agent that counts them is away free their slots when it is back", async (t) => {
  const network = new Network(t);
  const agents = await network.joined(2);
  const { owner, other } = parted(agents, "ann");
  const ids = await take([other], "ann", 3);
  network.cut.add(`${other.member.id}>${owner.member.id}`);
  for (const id of ids) assert.equal(await other.endSlot("ann", id, LIMIT), false);
  assert.equal(other.group.slots.ends.counts.kept, 3);
  network.cut.clear();
  await network.pass(1_000);
  assert.equal((await owner.takeSlot("ann", 0, LIMIT)).current, 0);
});

test("flows that end while their key changes hands free their slots afterwards", async (t) => {
  const network = new Network(t);
  const agents = [...(await network.joined(2))];
  const keys = Array.from({ length: 20 }, (_, at) => `user-${at}`);
  const held = new Map<string, string[]>();
  for (const key of keys) held.set(key, await take(agents, key, 2));
  const third = network.start();
  agents.push(third);
  // The others do not know the new one yet, which waits for them.
  network.tell(agents, [third]);
  const ends = keys.map((key) => third.endSlot(key, held.get(key)?.[0] ?? "", LIMIT));
  await network.settle();
  network.tell(agents);
  await network.settle();
  await Promise.all(ends);
  await network.pass(100);
  for (const key of keys) assert.equal((await third.takeSlot(key, 0, LIMIT)).current, 1, key);
});

test("an agent that knows no numbers yet ends slots of others", async (t) => {
  const network = new Network(t);
  const { owner, other } = parted(await network.joined(2), "ann");
  const [id = ""] = await take([owner], "ann", 1);
  await network.pass(2_000);
  assert.equal(await other.endSlot("ann", id, LIMIT), true);
  assert.equal((await owner.takeSlot("ann", 0, LIMIT)).current, 0);
});

test("slots that agents without numbers of their own hand over keep the numbers by which they were taken", async (t) => {
  const network = new Network(t);
  const [first] = (await network.joined(1)) as [Agent];
  const keys = Array.from({ length: 20 }, (_, at) => `user-${at}`);
  for (const key of keys) await take([first], key, 6);
  const second = network.start();
  assert.equal(await second.endSlot("ann", randomUUID(), LIMIT), false, "nobody took it");
  network.tell([first, second]);
  await network.settle();
  await first.group.leave();
  first.kill();
  const third = network.start();
  network.tell([second, third], [second, third]);
  await network.settle();
  assert.equal(await third.endSlot("ann", randomUUID(), LIMIT), false);
  await network.pass(2_000);
  for (const { group } of [second, third]) {
    assert.ok(group.owned.slots.count > 0);
    group.owned.sweep();
  }
  for (const key of keys) assert.equal((await take([second], key, 12)).length, 4, key);
});

test("the number of slots under one key is bounded, also where flows want no tokens", async (t) => {
  const network = new Network(t);
  const [agent] = await network.joined(1);
  assert.ok(agent);
  for (let n = 0; n < mostSlots(LIMIT); n++) await agent.takeSlot("a", 0, LIMIT);
  const { outcome, full } = await agent.takeSlot("a", 0, LIMIT);
  assert.deepEqual([outcome, full], ["refused", true]);
  assert.equal(agent.group.owned.slots.count, mostSlots(LIMIT));
  await network.pass(60_000);
  assert.equal((await agent.takeSlot("a", 1, LIMIT)).outcome, "granted");
  assert.equal(agent.group.owned.slots.count, 1);
});

test("keys are bounded: those whose slots have expired make room", async (t) => {
  const network = new Network(t);
  const [agent] = await network.joined(1);
  assert.ok(agent);
  for (let n = 0; n < 10_000; n++) await agent.takeSlot(`k${n}`, 1, LIMIT);
  assert.equal((await agent.takeSlot("one more", 1, LIMIT)).full, true);
  await network.pass(60_000);
  assert.equal((await agent.takeSlot("one more", 1, LIMIT)).outcome, "granted");
  assert.ok(agent.group.owned.slots.count < 10_000);
});

const MAX = 3;
const LIFE_MS = 60_000;
const PARAMS = { max: MAX, maxInflightMs: LIFE_MS };
const index = fc.nat({ max: 3 });
const STEP = fc.oneof(
  { weight: 8, arbitrary: fc.record({ take: index }) },
  { weight: 5, arbitrary: fc.record({ end: fc.nat(), at: index }) },
  { weight: 1, arbitrary: fc.record({ join: fc.constant(true) }) },
  { weight: 1, arbitrary: fc.record({ leave: index }) },
  { weight: 1, arbitrary: fc.record({ cut: fc.tuple(index, index) }) },
  { weight: 1, arbitrary: fc.record({ heal: fc.constant(true) }) },
  { weight: 2, arbitrary: fc.record({ advance: fc.constantFrom<number>(10, 1_000, 20_000) }) },
);

type Step = typeof STEP extends fc.Arbitrary<infer One> ? One : never;
const join = { join: true } as const;
const wait = (advance: number, times: number) => Array<Step>(times).fill({ advance });

/** Schedules in which more or less was counted once. */
const FOUND: readonly (readonly Step[])[] = [
  // Agents that knew no numbers yet handed slots on.
  [{ take: 0 }, { end: 0, at: 2 }, { take: 3 }, { leave: 1 }, join, { end: 0, at: 2 }],
  [
    { take: 1 },
    join,
    { leave: 2 },
    { leave: 0 },
    { end: 0, at: 1 },
    join,
    { take: 0 },
    { leave: 0 },
    join,
    { end: 0, at: 2 },
  ],
  // A slot expires when the rest are counted.
  [{ take: 0 }, ...wait(20_000, 2), ...wait(1_000, 17), ...wait(10, 36)],
];

/**
 * Lets time pass in steps that are shorter than any time limit, so that what is answered at once is in time. It is answered
 * before any time has passed: a slot starts when it is asked for.
 */
async function elapse({ clock, settle }: Pick<Network, "clock" | "settle">, ms: number) {
  await settle();
  for (let left = ms; left > 0; left -= 50) {
    clock.advance(Math.min(50, left));
    await settle();
  }
}

test("random schedules of joins, leaves and lost messages: never above the limit, and no slot outlives its time", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { minLength: 10, maxLength: 40 }), async (steps) => {
      const network = new Network(t);
      let agents = [...(await network.joined(3))];
      let held: { readonly id: string; readonly until: number }[] = [];
      const around = {
        clock: network.clock,
        async settle() {
          for (let n = 0; n < 8; n++) await turn();
        },
      };
      const any = (n: number) => agents[n % agents.length] as Agent;
      for (const step of steps) {
        const now = network.clock.now();
        if ("take" in step) {
          const taking = any(step.take).takeSlot("k", 1, PARAMS);
          await elapse(around, 150);
          const { outcome, id } = await taking;
          if (outcome === "granted") held.push({ id, until: now + LIFE_MS });
        } else if ("end" in step) {
          const [slot] = held.splice(step.end % Math.max(1, held.length), 1);
          if (slot === undefined) continue;
          const ending = any(step.at).endSlot("k", slot.id, PARAMS);
          await elapse(around, 150);
          await ending;
        } else if ("join" in step) {
          // An agent that is cut off hands over nothing, and then another bound holds.
          if (network.cut.size > 0 || agents.length > 3) continue;
          agents.push(network.start());
          network.tell(agents, agents);
          await network.settle();
        } else if ("leave" in step) {
          if (network.cut.size > 0 || agents.length < 2) continue;
          const gone = any(step.leave);
          await gone.group.leave();
          agents = agents.filter((agent) => agent !== gone);
          network.tell(agents, agents);
          await network.settle();
          gone.kill();
        } else if ("cut" in step) {
          const [from, to] = step.cut.map((n) => any(n).member.id);
          network.cut.add(`${from}>${to}`);
        } else if ("heal" in step) {
          network.cut.clear();
          await elapse(around, 1_200);
        } else {
          network.clock.advance(step.advance);
          await around.settle();
        }
        held = held.filter(({ until }) => until > network.clock.now());
        assert.ok(held.length <= MAX, `${held.length} in flight of ${MAX}`);
      }
      network.cut.clear();
      await elapse(around, 2_500);
      held = held.filter(({ until }) => until > network.clock.now());
      const asking = any(0).takeSlot("k", 0, PARAMS);
      await around.settle();
      const { current } = await asking;
      assert.equal(current, held.length, "what nobody holds was ended");
      network.clock.advance(LIFE_MS);
      await elapse(around, 1_200);
      assert.equal((await any(1).takeSlot("k", 0, PARAMS)).current, 0);
      for (const { group } of network.agents.values()) group.close();
    }),
    { numRuns: 100, examples: FOUND.map((steps) => [[...steps]]) },
  );
});

test("slots without an id are neither taken nor handed over, and end no process", async (t) => {
  const network = new Network(t);
  const [agent] = (await network.joined(1)) as [Agent];
  agent.slots.adopt(LIMIT);
  const limiter = {
    name: { policyName: "policy", name: "slots" },
    params: undefined,
    slots: LIMIT,
  };
  const slot = { limiter, lo: 1, hi: 1, id: "" };
  const [reply] = await agent.group.answer([{ kind: "take", ...slot, amount: 1 }]);
  assert.ok(reply !== undefined && reply !== "retry");
  assert.deepEqual(reply.granted, [0]);
  const moved = [{ kind: "slot", ...slot, tokens: 1, startMs: 0 } as const];
  const from = "process-9";
  void agent.group.receive({ from, number: 1, purpose: "hand over", last: true, moved });
  await network.settle();
  assert.equal(agent.group.owned.slots.count, 0);
});
