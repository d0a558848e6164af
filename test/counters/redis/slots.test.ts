// Concurrency slots in a real Redis: the suite of all engines, several agents, lost calls and replies, and random schedules
// beside a naive model.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import fc from "fast-check";
import { mostSlots } from "#counters/slot-ends.ts";
import { grantOf, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { slotSuite, TWO_FOR_A_SECOND } from "../../flow/counters/slot-suite.ts";
import { concurrency, concurrencyRule, flowOf, testContext } from "../../flow/limit/setup.ts";
import { fakeClock } from "../../kit/clock.ts";
import { startRedis } from "../../kit/servers/redis.ts";
import { answered, SlotAgent, VirtualRedis } from "./virtual-time.ts";

/** One server for the tests of this file. */
const here = { after: (end: () => void) => after(end) };
const { url } = await startRedis(here);
const redis = new VirtualRedis(here, url);

slotSuite("redis", async () => {
  await redis.clear();
  return new SlotAgent(redis);
});

test("agents share slots: each ends what another took, and one that starts anew forgets none", async () => {
  await redis.clear();
  const [ann, bob] = [new SlotAgent(redis), new SlotAgent(redis)];
  const first = await ann.take("a", 1, TWO_FOR_A_SECOND);
  await bob.take("a", 1, TWO_FOR_A_SECOND);
  assert.equal((await ann.take("a", 1, TWO_FOR_A_SECOND)).outcome, "refused");
  const eve = new SlotAgent(redis);
  assert.equal((await eve.take("a", 1, TWO_FOR_A_SECOND)).outcome, "refused");
  assert.equal(await eve.end("a", first.id, TWO_FOR_A_SECOND), true);
  assert.equal(await bob.end("a", first.id, TWO_FOR_A_SECOND), false);
  assert.equal((await bob.take("a", 1, TWO_FOR_A_SECOND)).outcome, "granted");
});

/** An agent with one limiter, whose slots are in Redis and whose failure mode refuses. */
function limited() {
  const agent = new SlotAgent(redis);
  const buckets = () => assert.fail("a concurrency limiter has no buckets");
  const context = {
    ...testContext(),
    clock: agent.clock,
    sharedCounters: { buckets, slots: () => agent.slots },
  };
  const book = new Rulebook("default", context);
  const selector = {
    controlPoint: "ingress",
    agentGroup: "default",
    service: "any",
    matcher: { labels: {}, list: [], expression: undefined },
  } as const;
  const rule = concurrencyRule({ onFailure: "closed", maxInflightMs: 60_000 });
  const refused = book.apply({
    rules: new Map([["key", { ...rule, selectors: [selector] }]]),
    numbers: new Map([["key", concurrency(1)]]),
  });
  assert.deepEqual(refused, []);
  const controller = createFlowController(book, context);
  return {
    agent,
    controller,
    async judge(deadline: number, meanwhile: () => Promise<void>): Promise<Verdict> {
      const judged = answered(controller.judge({ ...flowOf(), deadline }));
      await meanwhile();
      return judged;
    },
  };
}

test("D-9: a check without a deadline waits for its slot", async () => {
  await redis.clear();
  const { agent, judge } = limited();
  const { promise, resolve } = Promise.withResolvers<void>();
  redis.gate = promise;
  const verdict = await judge(Number.POSITIVE_INFINITY, async () => {
    agent.clock.advance(9_000);
    resolve();
  });
  redis.gate = undefined;
  assert.equal(verdict.accepted, true);
  assert.equal((await redis.slots()).length, 1);
});

test("D-10: a check whose deadline passes while Redis decides is refused, and holds no slot", async () => {
  await redis.clear();
  const { agent, judge } = limited();
  const { promise, resolve } = Promise.withResolvers<void>();
  redis.gate = promise;
  const verdict = await judge(agent.clock.now() + 500, async () => agent.clock.advance(500));
  assert.deepEqual([verdict.accepted, verdict.decisions[0]?.failure], [false, "closed"]);
  redis.gate = undefined;
  resolve();
  await redis.idle();
  assert.deepEqual(await redis.slots(), []);
  const next = await judge(Number.POSITIVE_INFINITY, async () => undefined);
  assert.equal(next.accepted, true, "the only slot is free");
});

test("FlowEnd ends slots in Redis, each on its own", async () => {
  await redis.clear();
  const { controller, judge } = limited();
  const { decisions } = await judge(Number.POSITIVE_INFINITY, async () => undefined);
  const grant = decisions[0] && grantOf(decisions[0]);
  assert.ok(grant);
  const { policyName, componentId, key: label, id: requestId } = grant;
  const slot = { policyName, policyHash: "hash", componentId, label, requestId, tokens: 7 };
  const ended = await answered(
    controller.end([
      { ...slot, policyName: "unknown" },
      { ...slot, requestId: "no id" },
      // Another version of the policy, in which the component has another number.
      { ...slot, policyHash: "earlier", componentId: "root.7" },
      slot,
    ]),
  );
  assert.deepEqual(ended, [
    { returned: false, error: "flow ender not found for limiter id" },
    { returned: false, error: "" },
    { returned: true, error: "" },
    { returned: false, error: "" },
  ]);
  assert.deepEqual(await redis.slots(), []);
});

test("D-10: a flow that was answered without its slot holds none", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  assert.equal(await agent.abandon("a", 1, TWO_FOR_A_SECOND), "undecided");
  assert.deepEqual(await redis.slots(), []);
  await agent.take("a", 2, TWO_FOR_A_SECOND);
  assert.equal(await agent.abandon("a", 1, TWO_FOR_A_SECOND), "undecided");
  assert.equal((await redis.slots()).length, 1, "a late refusal took nothing");
});

test("D-10: a slot whose reply is lost is ended when Redis answers again", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  redis.lost = "reply";
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "undecided");
  assert.equal((await redis.slots()).length, 1);
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "undecided", "Redis is away");
  agent.advance(10);
  await redis.idle();
  assert.deepEqual(await redis.slots(), []);
  assert.deepEqual(agent.ends.counts, { kept: 1, dropped: 0 });
});

test("flows that end while Redis is away free their slots when it is back", async () => {
  await redis.clear();
  const params = { max: 200, maxInflightMs: 1_000 };
  const agent = new SlotAgent(redis);
  const ids: string[] = [];
  for (let n = 0; n < 103; n++) ids.push((await agent.take("a", 1, params)).id);
  agent.requests.trip("away");
  for (const id of ids) assert.equal(await agent.end("a", id, params), false);
  assert.deepEqual(agent.ends.counts, { kept: 100, dropped: 3 }, "as many as are kept at most");
  agent.advance(10);
  await redis.idle();
  assert.deepEqual((await redis.slots()).toSorted(), ids.slice(100).toSorted());
  // The end of a slot that expires meanwhile is not sent.
  agent.requests.trip("away");
  await agent.end("a", ids[101] ?? "", { max: 200, maxInflightMs: 5 });
  agent.advance(10);
  await redis.idle();
  assert.equal((await redis.slots()).length, 3);
});

test("an end whose reply is lost is sent again", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  for (const lost of ["call", "reply"] as const) {
    const { id } = await agent.take("a", 1, TWO_FOR_A_SECOND);
    redis.lost = lost;
    assert.equal(await agent.end("a", id, TWO_FOR_A_SECOND), false);
    agent.advance(10);
    await redis.idle();
    assert.deepEqual(await redis.slots(), [], lost);
  }
});

test("a server whose clock was set back keeps no slot for longer than its time", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  const { id } = await agent.take("a", 1.5, TWO_FOR_A_SECOND);
  redis.now -= 3_600_000;
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "refused");
  agent.advance(999);
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "refused");
  agent.advance(1);
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "granted");
  assert.equal(await agent.end("a", id, TWO_FOR_A_SECOND), false);
});

test("the number of slots under one key is bounded, also where flows want no tokens", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  const most = mostSlots(TWO_FOR_A_SECOND);
  const takes = Array.from({ length: most }, () => agent.take("a", 0, TWO_FOR_A_SECOND));
  for (const { outcome } of await Promise.all(takes)) assert.equal(outcome, "granted");
  const { outcome, full } = await agent.take("a", 0, TWO_FOR_A_SECOND);
  assert.deepEqual([outcome, full], ["refused", true]);
  assert.equal((await redis.slots()).length, most);
  agent.advance(1_000);
  assert.equal((await agent.take("a", 1, TWO_FOR_A_SECOND)).outcome, "granted");
  assert.equal((await redis.slots()).length, 1);
});

test("a key is gone when its last slot ends or expires", async () => {
  await redis.clear();
  const agent = new SlotAgent(redis);
  const ids: string[] = [];
  for (const want of [1, 0.5]) ids.push((await agent.take("a", want, TWO_FOR_A_SECOND)).id);
  assert.deepEqual(redis.lives, [1_000]);
  for (const id of ids) await agent.end("a", id, TWO_FOR_A_SECOND);
  assert.deepEqual(redis.lives, []);
});

const AGENTS = 3;
const LIFE_MS = 1_000;
const agentIndex = fc.nat({ max: AGENTS - 1 });
const STEP = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      take: agentIndex,
      want: fc.constantFrom(0, 0.5, 1, 1, 1, 3, 9),
      lost: fc.constantFrom(undefined, undefined, undefined, "call" as const, "reply" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ abandon: agentIndex }) },
  {
    weight: 6,
    arbitrary: fc.record({
      end: fc.nat(),
      at: agentIndex,
      lost: fc.constantFrom(undefined, undefined, "call" as const, "reply" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ crash: agentIndex }) },
  { weight: 4, arbitrary: fc.record({ advance: fc.constantFrom(1, 10, 99.5, 400, 1_001) }) },
);

test("random schedules with crashes and lost calls: never above the limit, and no slot outlives its time", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 2.5, 4),
      fc.array(STEP, { minLength: 10, maxLength: 60 }),
      async (max, steps) => {
        await redis.clear();
        const params = { max, maxInflightMs: LIFE_MS };
        const clock = fakeClock();
        const agents = Array.from({ length: AGENTS }, () => new SlotAgent(redis, clock));
        /** Slots that callers hold. */
        let held: { readonly id: string; readonly want: number; readonly until: number }[] = [];
        /** When all slots are expired that a crashed agent may have taken without telling anybody. */
        let lostUntil = 0;
        for (const step of steps) {
          if ("advance" in step) {
            clock.advance(step.advance);
            redis.now += step.advance;
            await redis.idle();
          } else if ("crash" in step) {
            // Nothing of it is left but what Redis knows.
            agents[step.crash]?.requests.close();
            agents[step.crash] = new SlotAgent(redis, clock);
            lostUntil = redis.now + LIFE_MS;
          } else if ("abandon" in step) {
            await agents[step.abandon]?.abandon("k", 1, params);
          } else if ("take" in step) {
            const before = new Set(await redis.slots());
            redis.lost = step.lost;
            const answer = await agents[step.take]?.take("k", step.want, params);
            redis.lost = undefined;
            if (answer?.outcome === "granted") {
              assert.ok(answer.current <= 1e-9 || answer.current + step.want <= max + 1e-9);
              held.push({ id: answer.id, want: step.want, until: redis.now + LIFE_MS });
            } else if (answer?.outcome === "refused") {
              assert.deepEqual(
                (await redis.slots()).filter((id) => !before.has(id)),
                [],
                "a refusal takes nothing",
              );
            }
          } else {
            const [slot] = held.splice(step.end % Math.max(1, held.length), 1);
            if (slot === undefined) continue;
            redis.lost = step.lost;
            const ended = await agents[step.at]?.end("k", slot.id, params);
            if (redis.lost === undefined && step.lost === undefined && ended === false) {
              assert.notEqual(agents[step.at]?.requests.reason, undefined, "nobody could be asked");
            }
            redis.lost = undefined;
          }
          held = held.filter(({ until }) => until > redis.now);
          const inFlight = held.reduce((sum, { want }) => sum + want, 0);
          const large = held.some(({ want }) => want > max);
          assert.ok(large || inFlight <= max + 1e-9, `${inFlight} in flight of ${max}`);
          const known = new Set(await redis.slots());
          for (const { id } of held) assert.ok(known.has(id), "Redis forgot a slot that is held");
        }
        // Once all agents have Redis again, it counts the flows that hold a slot, and those that nobody knows of.
        clock.advance(10);
        redis.now += 10;
        await redis.idle();
        const expected = new Set(held.filter(({ until }) => until > redis.now).map(({ id }) => id));
        const unknown = (await redis.slots()).filter((id) => !expected.has(id));
        if (lostUntil <= redis.now) assert.deepEqual(unknown, []);
        redis.now += LIFE_MS;
        clock.advance(LIFE_MS);
        assert.equal((await new SlotAgent(redis, clock).take("k", max, params)).current, 0);
        for (const agent of agents) agent.requests.close();
      },
    ),
    { numRuns: 200 },
  );
});

test("an agent creates so many keys at one time and no more; those that exist have room", async () => {
  await redis.clear();
  const params = { max: 2, maxInflightMs: 1_000 };
  const [one, other] = [new SlotAgent(redis, undefined, 2), new SlotAgent(redis)];
  const taken = async (agent: SlotAgent, value: string) => {
    return (await agent.take(value, 1, params)).outcome;
  };
  assert.equal(await taken(other, "there"), "granted");
  assert.equal(await taken(one, "a"), "granted");
  assert.equal(await taken(one, "b"), "granted");
  assert.equal(await taken(one, "c"), "undecided");
  assert.deepEqual([one.overflows, other.overflows], [1, 0]);
  assert.equal(await taken(one, "there"), "granted", "the other agent created it");
  assert.equal(await taken(one, "a"), "granted");
});
