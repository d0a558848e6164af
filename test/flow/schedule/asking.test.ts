// The questions of a queue to an engine that agents share: it asks again and again, but ever less often; not for a flow that
// has left; and not after it has thrown. Buckets are asked for after a pause, in which other agents may ask.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { Chance } from "#base/chance.ts";
import type { EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import { LocalBuckets } from "#flow/counters/local/local-buckets.ts";
import type { SharedCounters, SharedEngine } from "#flow/counters/shared-counters.ts";
import { Pending } from "#flow/flow.ts";
import { EMPTY_SCHEMA, LabelSlots, Labels } from "#flow/label.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { OfferedLoad } from "#flow/schedule/queue/offered-load.ts";
import { BucketGate } from "#flow/schedule/quota-scheduler.ts";
import { claims, componentOf, flowOf } from "../../kit/sluice/flow.ts";
import {
  concurrencyQueueRule,
  NOTHING_LEFT,
  passed,
  quota,
  quotaRule,
  SchedulerBench,
  slots,
  workload,
} from "./kit.ts";

const REFUSED: EngineAnswer = {
  outcome: "refused",
  remaining: 0,
  current: 1,
  waitMs: 0,
  id: "",
  full: false,
};
const GRANTED: EngineAnswer = { ...REFUSED, outcome: "granted", id: "slot" };

/** A concurrency scheduler whose engine answers each question as it is told; questions are numbered from 0. */
function benchOf(answer: (question: number) => EngineAnswer | Pending<EngineAnswer>) {
  const asked: number[] = [];
  const bench = new SchedulerBench(concurrencyQueueRule(), slots(1), ({ clock }) => {
    const start = clock.now();
    const engine: SharedEngine<SlotParams> = {
      take: () => {
        asked.push(clock.now() - start);
        return answer(asked.length - 1);
      },
      giveBack: () => true,
      adopt: () => undefined,
      close: () => undefined,
    };
    const sharedCounters: SharedCounters = {
      buckets: () => assert.fail("it has no buckets"),
      slots: () => engine,
    };
    return { sharedCounters };
  });
  return { bench, asked };
}

it("a slot is asked for again after 5 ms, and then after twice the pause before, up to 100 ms", () => {
  const { bench, asked } = benchOf(() => REFUSED);
  const flow = bench.ask({}, { patienceMs: 500 });
  bench.clock.advance(1_000);
  assert.deepEqual(asked, [0, 5, 15, 35, 75, 155, 255, 355, 455]);
  assert.equal(passed(flow), false);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

it("a flow that leaves while it is asked about takes its question back, and the next one is asked about", () => {
  let cancelled = 0;
  const { bench, asked } = benchOf((question) => {
    if (question > 0) return GRANTED;
    return new Pending(() => {
      cancelled++;
    });
  });
  const first = bench.ask();
  const second = bench.ask();
  assert.deepEqual(
    [passed(first), passed(second)],
    [undefined, true],
    "nobody stands in the queue",
  );
  first.leave();
  assert.deepEqual([cancelled, asked.length], [1, 2]);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

/** Lets a flow wait that is never answered; what its answer fails with is added to the list. */
function failuresOf({ limiter, clock }: SchedulerBench): readonly unknown[] {
  const failures: unknown[] = [];
  const labels = new Labels(EMPTY_SCHEMA, claims({}));
  const answer = limiter.take(flowOf(), labels, clock.now());
  assert.ok(answer instanceof Pending);
  answer.whenSettled(
    () => assert.fail("it is not answered"),
    (thrown) => failures.push(thrown),
  );
  return failures;
}

it("an engine that throws while a flow waits fails this flow alone", () => {
  const { bench } = benchOf((question) => {
    if (question === 1) throw new Error("broken");
    return question === 0 ? REFUSED : GRANTED;
  });
  const failures = failuresOf(bench);
  const next = bench.ask();
  bench.clock.advance(5);
  assert.deepEqual(
    failures.map((thrown) => (thrown as Error).message),
    ["broken"],
  );
  assert.equal(passed(next), true);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

it("a failed answer fails only the flow it was about, and the next one is asked about at once", () => {
  let fail: () => void = () => assert.fail("nobody has asked");
  const { bench } = benchOf((question) => {
    if (question !== 1) return question === 0 ? REFUSED : GRANTED;
    const answer = new Pending<EngineAnswer>();
    fail = () => answer.fail(new Error("broken"));
    return answer;
  });
  const failures = failuresOf(bench);
  const next = bench.ask();
  bench.clock.advance(5);
  assert.deepEqual([failures.length, passed(next)], [0, undefined]);
  fail();
  assert.deepEqual([failures.length, passed(next)], [1, true]);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

/** A draw for which an exponential pause is as long as its mean. */
const MEAN: Chance = () => 1 - Math.exp(-1);

/** A quota scheduler whose buckets agents share, and the times at which it asks, ms after the start. */
function quotaBench(exclusive: boolean, capacity: number, perSecond: number) {
  const asked: number[] = [];
  const rule = quotaRule({ tokensLabelKey: "cost" });
  const bench = new SchedulerBench(rule, quota(capacity, perSecond), (context) => {
    const start = context.clock.now();
    class Shared extends LocalBuckets {
      readonly exclusive = exclusive;
      override take(...args: Parameters<LocalBuckets["take"]>): EngineAnswer {
        asked.push(context.clock.now() - start);
        return super.take(...args);
      }
    }
    const sharedCounters: SharedCounters = {
      buckets: () => new Shared(context, "shared"),
      slots: () => assert.fail("it has no slots"),
    };
    return { sharedCounters, chance: MEAN };
  });
  return { bench, asked };
}

it("a queue leaves tokens to those of other agents for a pause, unless this agent is alone", () => {
  for (const exclusive of [false, true]) {
    const { bench, asked } = quotaBench(exclusive, 1, 1);
    bench.ask();
    bench.ask();
    bench.clock.advance(3_000);
    assert.equal(asked.length, 3, `${asked}`);
    const pause = (asked[2] ?? 0) - 1_000;
    assert.ok(exclusive ? pause < 1e-6 : pause > 1, `exclusive ${exclusive}: ${pause} ms`);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  }
});

it("when the flow at the head leaves, a smaller one is asked about sooner, and one of the same size no sooner", () => {
  const { bench, asked } = quotaBench(false, 10, 1);
  bench.ask({ cost: "10" });
  bench.clock.advance(2_000);
  const [head, alike, small] = ["8", "8", "1"].map((cost) => bench.ask({ cost }));
  assert.deepEqual(asked.splice(0), [0, 2_000]);
  bench.clock.advance(500);
  head?.leave();
  bench.clock.advance(500);
  assert.deepEqual(asked, [], "there cannot be eight tokens before");
  alike?.leave();
  bench.clock.advance(500);
  assert.equal(small && passed(small), true);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

/** Time over which a load that is new takes the tokens to have arrived, ms. */
const WINDOW_MS = 2_000 * (1 - Math.exp(-100 / 2_000));

const unasked = (): never => assert.fail("the length of a pause depends on no answer");

/** Length of the pause at a gate of 0.1 tokens per ms, of which workloads of priority 8 each ask for so many per ms. */
function pauseOf(
  perMs: readonly number[],
  { capacity = 1_000, priority = 8, patienceMs = 60_000, chance = MEAN } = {},
): number {
  const limiter = {
    component: componentOf(),
    maxTokens: capacity,
    settlement: undefined,
    shared: { capacity, amount: 100, intervalMs: 1_000 },
    peek: unasked,
    take: unasked,
    undo: unasked,
    decide: unasked,
    settle: unasked,
  };
  const rule = quotaRule({ workloads: [workload("high", 8)] });
  const gate = new BucketGate(limiter, rule, new LabelSlots(), { observer: NO_OBSERVER, chance });
  const load = new OfferedLoad(0);
  const ticket = { workload: "", tokens: 1, fairness: undefined, lacksTokens: false };
  for (const [at, tokensPerMs] of perMs.entries()) {
    const tokens = tokensPerMs * WINDOW_MS;
    load.arrived({ ...ticket, workload: String(at), priority: 8, tokens }, 0);
  }
  return gate.pauseMs(load, { ...ticket, priority, patienceMs }, 0);
}

const near = (ms: number, wanted: number) =>
  assert.ok(Math.abs(ms - wanted) < 1e-9, `${ms} ms, wanted ${wanted}`);

it("pauses are 10 ms on average where as much of the highest priority is asked for as there is, and shorter under more load", () => {
  near(pauseOf([0.1]), 10);
  near(pauseOf([0.1, 0.1]), 5);
  near(pauseOf([0.5]), 10);
  near(pauseOf([0.05]), 20);
});

it("mean pauses are bounded: 250 ms, a part of the time that fills the bucket, and a third of a flow's patience", () => {
  near(pauseOf([1e-7]), 250);
  near(pauseOf([1e-7], { capacity: 10 }), 25);
  near(pauseOf([0.1], { capacity: 10 }), 2.5);
  near(pauseOf([1e-7], { patienceMs: 300 }), 100);
  near(pauseOf([1e-7], { patienceMs: 150, priority: 2 }), 200);
  near(pauseOf([1e-7], { patienceMs: 30, priority: 0.001 }), 80);
});

it("pauses are exponential", () => {
  near(pauseOf([0.1], { chance: () => 0 }), 0);
  near(pauseOf([0.1], { chance: () => 1 - Math.exp(-3) }), 30);
});
