// The load scheduler in virtual time: the rate that it measures, the share that it lets pass, and for how long.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { LoadGauges } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { flowOf, recordingObserver } from "../../kit/sluice/flow.ts";
import {
  load,
  loadRule,
  NOTHING_LEFT,
  passed,
  SchedulerBench,
  VirtualClock,
  workload,
} from "./kit.ts";

/** Asks for `perSecond` flows a second for this long; returns how many passed and were refused. */
function drive(bench: SchedulerBench, seconds: number, perSecond: number, patienceMs = 100) {
  const counts = { passed: 0, refused: 0 };
  for (let at = 0; at < seconds * perSecond; at++) {
    bench.ask({}, { patienceMs }, (asked) => {
      if (passed(asked)) counts.passed += 1;
      else counts.refused += 1;
    });
    bench.clock.advance(1_000 / perSecond);
  }
  return counts;
}

test("limits nothing until it has measured thirty whole seconds", () => {
  const bench = new SchedulerBench(loadRule(), load(0));
  assert.equal(drive(bench, 30, 10).refused, 0);
  bench.clock.advance(1_000);
  const { decision } = bench.ask();
  assert.deepEqual(
    [decision?.dropped, decision?.workload, decision?.priority],
    [true, "default", 1],
  );
});

test("lets the share of the measured rate pass that was decided", () => {
  const bench = new SchedulerBench(loadRule(), load(0.5));
  drive(bench, 31, 100);
  const { passed: share } = drive(bench, 20, 100);
  assert.ok(Math.abs(share / 2_000 - 0.5) < 0.05, `${share} of 2000`);
  bench.clock.advance(1_000);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

test("measures anew after half a minute without flows", () => {
  const bench = new SchedulerBench(loadRule(), load(0));
  bench.clock.advance(40_000);
  assert.equal(passed(bench.ask()), true, "the first flow came too late for the first measurement");
  drive(bench, 31, 10);
  assert.equal(passed(bench.ask()), false);
  bench.clock.advance(32_000);
  assert.equal(passed(bench.ask()), true);
});

test("a decision that is not valid any more lets everything pass, and the reply says so", () => {
  const bench = new SchedulerBench(loadRule());
  drive(bench, 31, 10);
  const validUntil = bench.clock.wall() + 50_000;
  bench.limiter.decide(load(0, { validUntil }));
  assert.equal(passed(bench.ask()), false);
  drive(bench, 51, 1);
  const { decision } = bench.ask();
  assert.deepEqual([decision?.dropped, decision?.failure, decision?.consumed], [false, "open", 1]);
});

test("passes everything by while it is told to, and counts on", () => {
  const bench = new SchedulerBench(loadRule(), load(0, { passThrough: true }));
  assert.equal(drive(bench, 40, 10).refused, 0);
  bench.limiter.decide(load(0));
  assert.equal(passed(bench.ask()), false);
});

test("a flow waits for tokens that are more than the bucket holds", () => {
  const bench = new SchedulerBench(loadRule({ tokensLabelKey: "cost" }), load(1));
  for (let at = 0; at < 31; at++) {
    bench.ask({ cost: "1" });
    bench.clock.advance(1_000);
  }
  const large = bench.ask({ cost: "3" }, { patienceMs: 5_000 });
  assert.equal(passed(large), undefined);
  bench.clock.advance(2_500);
  assert.equal(passed(large), true);
});

test("takes the tokens of a workload from the estimate, and those of a label before", () => {
  const rule = loadRule({
    workloads: [workload("slow", 1, { tokens: 2 })],
    tokensLabelKey: "cost",
  });
  const tokensByWorkload = new Map([
    ["slow", 7],
    ["default", 0],
  ]);
  const bench = new SchedulerBench(rule, load(1, { tokensByWorkload }));
  assert.deepEqual(
    [{ w: "slow" }, {}, { w: "slow", cost: "3" }].map(
      (labels) => bench.ask(labels).decision?.consumed,
    ),
    [7, 1, 3],
  );
});

test("D-36: a multiplier that is negative or no number is no danger", () => {
  const bench = new SchedulerBench(loadRule());
  drive(bench, 31, 10);
  bench.limiter.decide(load(-1));
  assert.equal(passed(bench.ask()), false);
  bench.limiter.decide(load(Number.NaN));
  assert.equal(passed(bench.ask()), true);
});

test("D-36: what passed while it measured is not given back", () => {
  const bench = new SchedulerBench(loadRule(), load(0));
  const asked = bench.ask();
  assert.deepEqual([asked.decision?.consumed, asked.decision?.grantId], [1, undefined]);
});

test("reports its state when its rule or another version of it comes into force, and nothing for each check", () => {
  const reported: LoadGauges[] = [];
  const clock = new VirtualClock();
  const recorded = recordingObserver();
  const observer = {
    ...recorded,
    loaded: (_component: unknown, gauges: LoadGauges) => void reported.push(gauges),
  };
  const world = { clock, chance: seededChance(1), observer, maxKeys: 100 };
  const book = new Rulebook("default", world);
  const matcher = { labels: {}, list: [], expression: undefined };
  const selectors = [{ controlPoint: "here", agentGroup: "default", service: "any", matcher }];
  const rules = new Map([["rule", loadRule({}, { selectors })]]);
  assert.deepEqual(book.apply({ rules, numbers: new Map() }), []);
  assert.deepEqual(
    reported.map(({ condition }) => condition),
    ["no_decision"],
  );
  const controller = createFlowController(book, world);
  for (let check = 0; check < 10; check++) controller.judge(flowOf({}));
  assert.deepEqual(recorded.anomalies, Array(10).fill("undecided"));
  book.apply({ rules: new Map(), numbers: new Map([["rule", load(0.5)]]) });
  assert.equal(reported.length, 1, "the object is live");
  assert.equal(reported[0]?.condition, "measuring");
  const edited = new Map([["rule", loadRule({}, { selectors, policyHash: "edited" })]]);
  book.apply({ rules: edited, numbers: new Map() });
  assert.equal(reported.length, 2);
  assert.equal(reported[1]?.condition, "measuring", "the numbers of the version before count");
});
