// The questions of a queue to an engine that agents share: it asks again and again, but ever less often; not for a flow that
// has left; and not after it has thrown.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import type { SharedCounters, SharedEngine } from "#flow/counters/shared-counters.ts";
import { Pending } from "#flow/flow.ts";
import { Labels } from "#flow/label.ts";
import { claims, flowOf } from "../../kit/sluice/flow.ts";
import { concurrencyQueueRule, NOTHING_LEFT, passed, SchedulerBench, slots } from "./kit.ts";

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
      peek: () => REFUSED,
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

it("an engine that throws while a flow waits fails this flow alone", () => {
  const { bench } = benchOf((question) => {
    if (question === 1) throw new Error("broken");
    return question === 0 ? REFUSED : GRANTED;
  });
  const failures: unknown[] = [];
  const labels = new Labels([], claims({}));
  const answer = bench.limiter.take(flowOf(), labels, bench.clock.now());
  assert.ok(answer instanceof Pending);
  answer.whenSettled(
    () => assert.fail("it is not answered"),
    (thrown) => failures.push(thrown),
  );
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
  const failures: unknown[] = [];
  const labels = new Labels([], claims({}));
  const answer = bench.limiter.take(flowOf(), labels, bench.clock.now());
  assert.ok(answer instanceof Pending);
  answer.whenSettled(
    () => assert.fail("it is not answered"),
    (thrown) => failures.push(thrown),
  );
  const next = bench.ask();
  bench.clock.advance(5);
  assert.deepEqual([failures.length, passed(next)], [0, undefined]);
  fail();
  assert.deepEqual([failures.length, passed(next)], [1, true]);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});
