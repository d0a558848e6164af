// Schedulers in virtual time: what every queue does, the buckets of a quota scheduler, the slots of a concurrency scheduler,
// and the faults of the reference that they do not have.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { QueueCapacity } from "#flow/schedule/queue/queue-capacity.ts";
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

/** One token per second, and one in the bucket. */
const SLOW = quota(1, 1);

describe("a quota scheduler", () => {
  it("lets flows pass while there are tokens, and says what it did", () => {
    const bench = new SchedulerBench(quotaRule({ workloads: [workload("gold", 50)] }), quota(5, 1));
    const { decision } = bench.ask({ w: "gold" });
    assert.deepEqual(
      [decision?.dropped, decision?.workload, decision?.priority, decision?.consumed],
      [false, "gold", 50, 1],
    );
    assert.deepEqual([decision?.label, decision?.remaining, decision?.waitMs], ["default", 4, -1]);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("lets a flow wait for its token, and tells how long it waited", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const second = bench.ask();
    const third = bench.ask();
    bench.clock.advance(999);
    assert.equal(passed(second), undefined);
    bench.clock.advance(2);
    assert.deepEqual([passed(second), passed(third)], [true, undefined]);
    bench.clock.advance(1_000);
    assert.equal(passed(third), true);
    assert.deepEqual(
      bench.scheduled.map(({ waitedMs }) => Math.round(waitedMs / 1_000)),
      [0, 1, 2],
    );
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("refuses a flow whose turn comes too late for it, with the wait that it would need", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const { decision } = bench.ask({}, { patienceMs: 500 });
    assert.deepEqual([decision?.dropped, decision?.consumed], [true, 0]);
    assert.equal(Math.round(decision?.waitMs ?? 0), 1_000);
  });

  it("refuses a flow at the end of its patience, and serves the next", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const second = bench.ask({}, { patienceMs: 3_000 });
    const third = bench.ask({}, { patienceMs: 1_500 });
    const fourth = bench.ask({}, { patienceMs: 5_000 });
    bench.clock.advance(1_600);
    assert.deepEqual([passed(second), passed(third), passed(fourth)], [true, false, undefined]);
    bench.clock.advance(500);
    assert.equal(passed(fourth), true);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("has a queue for each key", () => {
    const bench = new SchedulerBench(quotaRule({}, { limitByLabelKey: "k" }), SLOW);
    bench.ask({ k: "a" });
    const waits = bench.ask({ k: "a" });
    const other = bench.ask({ k: "b" });
    assert.deepEqual([passed(waits), passed(other)], [undefined, true]);
    assert.equal(other.decision?.label, "k:b");
    assert.equal(bench.queues.size, 1);
  });

  it("lets a flow without its key pass by, as the policy says", () => {
    const bench = new SchedulerBench(quotaRule({}, { limitByLabelKey: "k" }), quota(0, 0));
    const { decision } = bench.ask();
    assert.deepEqual([decision?.dropped, decision?.missing, decision?.label], [false, 1, ""]);
    assert.deepEqual(bench.missing, ["key"]);
  });

  it("counts a missing label once, however long the flow waits", () => {
    const rule = quotaRule(
      { tokensLabelKey: "cost" },
      { limitByLabelKey: "k", onMissingLabel: "default_key" },
    );
    const bench = new SchedulerBench(rule, SLOW);
    bench.ask({ cost: "1" });
    const second = bench.ask();
    bench.clock.advance(1_001);
    assert.equal(passed(second), true);
    assert.deepEqual(bench.missing, ["key", "tokens", "key"]);
    assert.equal(second.decision?.missing, 6);
  });

  it("lets all that wait pass when its numbers say so", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const waiting = [bench.ask(), bench.ask()];
    bench.limiter.decide(quota(1, 1, true));
    assert.deepEqual(waiting.map(passed), [true, true]);
    assert.equal(waiting[0]?.decision?.label, "");
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("serves those that wait by new numbers at once", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const second = bench.ask();
    bench.clock.advance(100);
    bench.limiter.decide(quota(10, 1_000));
    bench.clock.advance(1);
    assert.equal(passed(second), true);
  });

  it("lets the next flow pass when tokens come back", () => {
    const bench = new SchedulerBench(quotaRule(), quota(1, 0.001));
    const first = bench.ask();
    const second = bench.ask({}, { patienceMs: 2_000_000 });
    bench.undo(first);
    assert.equal(passed(second), true);
  });

  it("lets everything pass that waits when it leaves the plan", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const waiting = [bench.ask(), bench.ask()];
    bench.state.close();
    assert.deepEqual(waiting.map(passed), [true, true]);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });
});

describe("the queue of a scheduler", () => {
  it("prefers priority among those that wait, but keeps a turn that was given", () => {
    const rule = quotaRule({ workloads: [workload("low", 1), workload("high", 100)] });
    const bench = new SchedulerBench(rule, SLOW);
    bench.ask();
    const order: string[] = [];
    for (const w of ["low", "low", "high"]) bench.ask({ w }, {}, () => order.push(w));
    bench.clock.advance(3_100);
    assert.deepEqual(order, ["low", "high", "low"]);
  });

  it("gives the place of a caller that leaves to the next one at once", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    bench.ask();
    const gone = bench.ask();
    const next = bench.ask();
    gone.leave();
    assert.equal(passed(gone), true, "it was not refused");
    assert.equal(gone.decision?.consumed, 0);
    bench.clock.advance(1_001);
    assert.equal(passed(next), true);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("sets one alarm for all that wait", () => {
    const bench = new SchedulerBench(quotaRule(), SLOW);
    for (let at = 0; at < 100; at++) bench.ask({}, { patienceMs: 1_000 + at });
    assert.equal(bench.clock.alarms, 1);
    bench.clock.advance(2_000);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("refuses at once what it has no room for, and counts it", () => {
    const capacity = new QueueCapacity({ flows: 4, bytes: 1 << 20 });
    const bench = new SchedulerBench(quotaRule(), SLOW, { capacity });
    const asked = Array.from({ length: 8 }, () => bench.ask());
    assert.deepEqual(asked.map(passed).filter((each) => each === false).length > 0, true);
    assert.ok(bench.anomalies.includes("queue_full"));
    // The flows of one workload leave room for those of others.
    assert.equal(passed(bench.ask({}, {}, undefined)), false);
    assert.ok(capacity.free > 0);
  });

  it("leaves room for other workloads when one of them floods it", () => {
    const capacity = new QueueCapacity({ flows: 8, bytes: 1 << 20 });
    const rule = quotaRule({ workloads: [workload("flood", 1), workload("calm", 1)] });
    const bench = new SchedulerBench(rule, SLOW, { capacity });
    for (let at = 0; at < 20; at++) bench.ask({ w: "flood" });
    assert.equal(passed(bench.ask({ w: "calm" })), undefined);
  });

  it("refuses a flow that would take too much memory", () => {
    const capacity = new QueueCapacity({ flows: 100, bytes: 10_000 });
    const bench = new SchedulerBench(quotaRule(), SLOW, { capacity });
    bench.ask();
    assert.equal(passed(bench.ask({}, { size: 20_000 })), false);
    assert.equal(passed(bench.ask({}, { size: 2_000 })), undefined);
    assert.deepEqual(bench.anomalies, ["queue_full"]);
  });

  it("waits no longer than ten seconds for a caller without a deadline", () => {
    const bench = new SchedulerBench(quotaRule(), quota(1, 0.05));
    bench.ask();
    const second = bench.ask();
    assert.equal(passed(second), false, "its token comes in twenty seconds");
    const slow = new SchedulerBench(concurrencyQueueRule(), slots(1));
    slow.ask();
    const waits = slow.ask();
    slow.clock.advance(9_999);
    assert.equal(passed(waits), undefined);
    slow.clock.advance(2);
    assert.equal(passed(waits), false);
  });
});

describe("a concurrency scheduler", () => {
  it("lets the next flow pass when one ends (D-6: everything passes before its first numbers)", () => {
    const bench = new SchedulerBench(concurrencyQueueRule());
    assert.equal(passed(bench.ask()), true);
    bench.limiter.decide(slots(1));
    const first = bench.ask();
    const second = bench.ask();
    assert.deepEqual([passed(first), passed(second)], [true, undefined]);
    assert.equal(bench.end(first), true);
    assert.equal(passed(second), true);
    assert.notEqual(second.decision?.requestId, "");
    assert.deepEqual(bench.left, NOTHING_LEFT);
  });

  it("frees the slots that nobody ends", () => {
    const rule = concurrencyQueueRule({}, { maxInflightMs: 2_000 });
    const bench = new SchedulerBench(rule, slots(1));
    bench.ask();
    const second = bench.ask();
    bench.clock.advance(1_999);
    assert.equal(passed(second), undefined);
    bench.clock.advance(2);
    assert.equal(passed(second), true);
  });

  it("serves equals in the order of their arrival, large ones too (D-38)", () => {
    const bench = new SchedulerBench(concurrencyQueueRule({ tokensLabelKey: "cost" }), slots(3));
    const held = [bench.ask({ cost: "2" }), bench.ask({ cost: "1" })];
    const order: string[] = [];
    bench.ask({ cost: "3" }, {}, () => order.push("large"));
    bench.ask({ cost: "1" }, {}, () => order.push("small"));
    for (const each of held) bench.end(each);
    assert.deepEqual(order, ["large"], "the small one does not fit beside it");
  });

  it("lets a flow that is larger than the limit pass alone (D-38)", () => {
    const bench = new SchedulerBench(concurrencyQueueRule({ tokensLabelKey: "cost" }), slots(2));
    const small = bench.ask({ cost: "1" });
    const huge = bench.ask({ cost: "5" });
    assert.equal(passed(huge), undefined);
    bench.end(small);
    assert.equal(passed(huge), true);
  });

  it("holds no slot for a flow that it refuses (D-10)", () => {
    const bench = new SchedulerBench(concurrencyQueueRule(), slots(1));
    const first = bench.ask();
    const late = bench.ask({}, { patienceMs: 100 });
    bench.clock.advance(101);
    assert.equal(passed(late), false);
    bench.end(first);
    assert.equal(passed(bench.ask()), true);
  });
});

describe("faults of the reference", () => {
  it("D-9: a flow without a deadline waits", () => {
    const bench = new SchedulerBench(concurrencyQueueRule(), slots(1));
    const first = bench.ask();
    const second = bench.ask();
    assert.equal(passed(second), undefined);
    bench.end(first);
    assert.equal(passed(second), true);
  });

  it("D-12: nothing is given back of what a flow did not take", () => {
    const bench = new SchedulerBench(quotaRule(), quota(1, 0, true));
    const asked = bench.ask();
    bench.undo(asked);
    assert.equal(asked.decision?.grantId, undefined);
  });

  it("D-18: with a queue timeout of 0 or 5 ms, a flow takes a token that is there", () => {
    for (const queueTimeoutMs of [0, 5]) {
      const defaultParameters = { priority: 1, tokens: 1, queueTimeoutMs };
      const bench = new SchedulerBench(quotaRule({ defaultParameters }), quota(2, 0));
      assert.deepEqual(
        [0, 1, 2].map(() => passed(bench.ask())),
        [true, true, false],
      );
    }
  });

  it("D-16: costs and priorities from labels are decimals, or ignored and counted", () => {
    const bench = new SchedulerBench(
      quotaRule({ tokensLabelKey: "cost", priorityLabelKey: "p" }),
      quota(100, 0),
    );
    for (const cost of ["NaN", "Infinity", "-5", "0x1p2"]) {
      const { decision } = bench.ask({ cost, p: cost });
      assert.deepEqual([decision?.consumed, decision?.priority], [1, 1]);
    }
    assert.equal(bench.anomalies.length, 8);
  });

  it("D-19: a missing label with the number of tokens is reported, one that is no number is counted", () => {
    const bench = new SchedulerBench(quotaRule({ tokensLabelKey: "cost" }), quota(9, 0));
    assert.equal(bench.ask().decision?.missing, 4);
    assert.equal(bench.ask({ cost: "x" }).decision?.missing, 0);
    assert.deepEqual([bench.missing, bench.anomalies], [["tokens"], ["bad_label_number"]]);
  });
});
