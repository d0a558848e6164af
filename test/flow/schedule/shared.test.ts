// Schedulers over counters that agents share: the engine answers later, is changed by others, or cannot decide.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { FailureMode } from "#base/failure-mode.ts";
import { type EngineAnswer, type LocalEngine, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { LocalBuckets } from "#flow/counters/local/local-buckets.ts";
import { LocalSlots } from "#flow/counters/local/local-slots.ts";
import type { SharedCounters, SharedEngine } from "#flow/counters/shared-counters.ts";
import { type InQueue, Pending } from "#flow/flow.ts";
import type { LimiterNumbers, LimiterRule } from "#flow/rules.ts";
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

/** The time that the engine takes to answer, ms. */
const DELAY_MS = 2;

/** An engine that counts as the local one does, and answers later. */
class Remote<Params> implements SharedEngine<Params> {
  away = false;
  /** The tokens for which others waited behind each flow that was asked about. */
  readonly behind: (number | undefined)[] = [];
  readonly #local: LocalEngine<Params>;
  readonly #clock: Clock;
  #params: Params | undefined;

  constructor(local: LocalEngine<Params>, clock: Clock) {
    this.#local = local;
    this.#clock = clock;
  }

  take(
    value: string | undefined,
    want: number,
    params: Params,
    _now: number,
    queued?: InQueue,
  ): Pending<EngineAnswer> {
    this.behind.push(queued?.behind);
    const answer = new Pending<EngineAnswer>();
    this.#params = params;
    this.#clock.alarm(DELAY_MS, () => {
      const taken = this.#local.take(value, want, params, this.#clock.now());
      answer.settle(this.away ? UNDECIDED : { ...taken });
    });
    return answer;
  }

  giveBack(value: string | undefined, amount: number, id: string, params: Params): boolean {
    return this.#local.giveBack(value, amount, id, params);
  }

  /** The actions of another agent. */
  get others() {
    const params = this.#params;
    if (params === undefined) throw new Error("nobody has asked yet");
    return {
      take: (want: number) => ({
        ...this.#local.take(undefined, want, params, this.#clock.now()),
      }),
      end: (id: string) => this.#local.giveBack(undefined, 1, id, params),
    };
  }

  charge(): void {
    assert.fail("nothing is settled");
  }

  adopt(): void {}
  close(): void {}
}

function benchOf(rule: LimiterRule, numbers: LimiterNumbers) {
  const engines: Remote<never>[] = [];
  const bench = new SchedulerBench(rule, numbers, (context) => {
    const added = <Params>(local: LocalEngine<Params>) => {
      const engine = new Remote(local, context.clock);
      engines.push(engine as Remote<never>);
      return engine;
    };
    const sharedCounters: SharedCounters = {
      buckets: () => added(new LocalBuckets(context, "remote")),
      slots: () => added(new LocalSlots(context)),
    };
    return { sharedCounters };
  });
  const [engine] = engines;
  assert.ok(engine !== undefined);
  return { bench, engine };
}

it("flows wait for tokens that are counted elsewhere", () => {
  const { bench } = benchOf(quotaRule(), quota(1, 1));
  const all = [bench.ask(), bench.ask(), bench.ask()];
  bench.clock.advance(100);
  assert.deepEqual(all.map(passed), [true, undefined, undefined]);
  bench.clock.advance(1_000);
  assert.deepEqual(all.map(passed), [true, true, undefined]);
  bench.clock.advance(1_100);
  assert.deepEqual(all.map(passed), [true, true, true]);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

it("a queue names the tokens for which others wait behind the flow that it asks about", () => {
  const { bench, engine } = benchOf(quotaRule({ tokensLabelKey: "cost" }), quota(8, 8));
  bench.ask({ cost: "8" });
  bench.clock.advance(DELAY_MS);
  bench.ask({ cost: "2" });
  bench.clock.advance(DELAY_MS);
  assert.deepEqual(engine.behind.splice(0), [undefined, undefined], "neither waits yet");
  bench.ask({ cost: "3" });
  bench.ask({ cost: "1" });
  bench.clock.advance(10_000);
  assert.deepEqual([...new Set(engine.behind)], [4, 1, 0]);
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

it("workloads share what is counted elsewhere by their priorities", () => {
  const all = [workload("low", 1), workload("high", 3)];
  const { bench } = benchOf(quotaRule({ workloads: all }), quota(5, 100));
  const counts = { low: 0, high: 0 };
  for (let at = 0; at < 6_000; at++) {
    const w = at % 2 === 0 ? "low" : "high";
    bench.ask({ w }, { patienceMs: 1_000 }, (asked) => {
      if (passed(asked)) counts[w] += 1;
    });
    bench.clock.advance(5);
  }
  bench.clock.advance(2_000);
  const share = counts.high / (counts.high + counts.low);
  assert.ok(Math.abs(share - 0.75) < 0.03, JSON.stringify(counts));
  assert.ok(counts.high + counts.low > 2_500, "the tokens are used");
  assert.deepEqual(bench.left, NOTHING_LEFT);
});

it("what is granted to a flow that has left is given back", () => {
  for (const first of [true, false]) {
    const { bench } = benchOf(concurrencyQueueRule(), slots(1));
    const holder = first ? undefined : bench.ask();
    bench.clock.advance(10);
    const leaver = bench.ask();
    if (holder !== undefined) {
      bench.clock.advance(10);
      bench.end(holder);
    }
    // Its place is asked for, and the answer is on its way.
    leaver.leave();
    bench.clock.advance(10);
    const next = bench.ask();
    bench.clock.advance(10);
    assert.equal(passed(next), true, `first: ${first}`);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  }
});

it("a slot that another agent frees is found by asking again", () => {
  const { bench, engine } = benchOf(concurrencyQueueRule(), slots(1));
  const holder = bench.ask();
  bench.clock.advance(5);
  bench.end(holder);
  const { id } = engine.others.take(1);
  const waits = bench.ask();
  bench.clock.advance(1_000);
  assert.equal(passed(waits), undefined);
  engine.others.end(id);
  bench.clock.advance(110);
  assert.equal(passed(waits), true);
});

it("an engine that cannot decide: the failure mode answers those that wait, too", () => {
  const wanted: Readonly<Record<FailureMode, boolean>> = {
    open: true,
    closed: false,
    // It has as many slots in process.
    local: true,
    last_known: true,
  };
  for (const [mode, passes] of Object.entries(wanted)) {
    const onFailure = mode as FailureMode;
    const { bench, engine } = benchOf(concurrencyQueueRule({}, { onFailure }), slots(1));
    bench.ask();
    bench.clock.advance(5);
    const waits = bench.ask();
    bench.clock.advance(50);
    assert.equal(passed(waits), undefined);
    engine.away = true;
    bench.clock.advance(200);
    assert.equal(passed(waits), passes, mode);
    assert.equal(waits.decision?.failure, mode);
    assert.deepEqual(bench.left, NOTHING_LEFT);
  }
});
