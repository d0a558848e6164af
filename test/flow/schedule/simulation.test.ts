// Fairness of the real schedulers in virtual time: long-run shares of workloads, of the flows of one workload, the order
// within a flow, and nothing left in any structure. Traffic and plans come from seeded chance and from properties.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import type { LimiterRule } from "#flow/rules.ts";
import {
  concurrencyQueueRule,
  load,
  loadRule,
  NOTHING_LEFT,
  passed,
  quota,
  quotaRule,
  SchedulerBench,
  slots,
  workload,
} from "./kit.ts";

interface Source {
  readonly labels: Readonly<Record<string, string>>;
  /** Flows per second, in random intervals. */
  readonly rate: number;
  readonly patienceMs: number;
}

/** Results for the flows of each source. */
interface Result {
  passed: number;
  readonly refused: number;
  /** Flows that passed before an earlier one of their source did. */
  readonly inversions: number;
  /** Longest time between two flows that passed, ms. */
  readonly longestGapMs: number;
}

/** Sends all sources for `seconds`, after a warm-up of one, and waits for the rest. */
function simulate(bench: SchedulerBench, sources: readonly Source[], seconds: number): Result[] {
  const chance = seededChance(7);
  const { clock } = bench;
  const start = clock.now() + 1_000;
  const end = start + seconds * 1_000;
  const results = sources.map(() => ({ passed: 0, refused: 0, inversions: 0, longestGapMs: 0 }));
  const last = sources.map(() => ({ number: -1, at: start }));
  const next = sources.map(({ rate }) => clock.now() + (chance() * 1_000) / rate);
  const sent = sources.map(() => 0);
  for (;;) {
    const at = Math.min(...next);
    if (at >= end) break;
    const which = next.indexOf(at);
    const source = sources[which];
    const result = results[which];
    const before = last[which];
    if (source === undefined || result === undefined || before === undefined) break;
    clock.advanceTo(at);
    const number = sent[which] ?? 0;
    sent[which] = number + 1;
    bench.ask(source.labels, { patienceMs: source.patienceMs }, (asked) => {
      const now = clock.now();
      if (now < start || now > end) return;
      if (!passed(asked)) {
        result.refused += 1;
        return;
      }
      result.passed += 1;
      if (number < before.number) result.inversions += 1;
      result.longestGapMs = Math.max(result.longestGapMs, now - before.at);
      before.number = number;
      before.at = now;
    });
    next[which] = at + (-Math.log(1 - chance()) * 1_000) / source.rate;
  }
  clock.advance(20_000);
  return results;
}

function assertShares(
  results: readonly Result[],
  weights: readonly number[],
  within: number,
): void {
  const total = results.reduce((sum, each) => sum + each.passed, 0);
  const weight = weights.reduce((sum, each) => sum + each, 0);
  for (const [at, each] of results.entries()) {
    const wanted = (weights[at] ?? 0) / weight;
    const error = Math.abs(each.passed / total / wanted - 1);
    assert.ok(
      error <= within,
      `source ${at}: ${each.passed} of ${total}, wanted ${wanted * total}`,
    );
    assert.equal(each.inversions, 0, `source ${at} overtook itself`);
  }
}

function workloads(count: number) {
  return Array.from({ length: count }, (_, at) => workload(`w${at}`, 1 + (at % 5)));
}

const RULES: Readonly<
  Record<string, (scheduler: Parameters<typeof quotaRule>[0]) => readonly [LimiterRule, unknown]>
> = {
  quota: (scheduler) => [quotaRule(scheduler), quota(1, 200)],
  concurrency: (scheduler) => [concurrencyQueueRule(scheduler, { maxInflightMs: 20 }), slots(4)],
  load: (scheduler) => [loadRule(scheduler), load(1 / 3)],
};

for (const [kind, make] of Object.entries(RULES)) {
  describe(`a ${kind} scheduler at three times its limit`, () => {
    for (const count of [2, 5, 50]) {
      it(`shares among ${count} workloads by their priorities, within 5 %`, () => {
        const all = workloads(count);
        const [rule, numbers] = make({ workloads: all });
        const bench = new SchedulerBench(rule, numbers as never);
        const weights = all.map(({ parameters }) => parameters.priority);
        const sum = weights.reduce((total, each) => total + each, 0);
        // Each workload asks for three times its share, and has always some flow that waits.
        const [patienceMs, seconds] = count < 50 ? [1_000, 40] : [4_000, 120];
        const sources = all.map(({ name }, at) => ({
          labels: { w: name },
          rate: (600 * (weights[at] ?? 0)) / sum,
          patienceMs,
        }));
        if (kind === "load") simulate(bench, sources, 31);
        assertShares(simulate(bench, sources, seconds), weights, 0.05);
        assert.deepEqual(bench.left, NOTHING_LEFT);
      });
    }

    it("shares a workload among its flows equally, however unequal they ask, within 5 %", () => {
      const [rule, numbers] = make({ fairnessLabelKey: "user" });
      const bench = new SchedulerBench(rule, numbers as never);
      const sources = [300, 150, 100, 100].map((rate, at) => ({
        labels: { user: `u${at}` },
        rate,
        patienceMs: 1_000,
      }));
      if (kind === "load") simulate(bench, sources, 31);
      assertShares(simulate(bench, sources, 40), [1, 1, 1, 1], 0.05);
      assert.deepEqual(bench.left, NOTHING_LEFT);
    });

    it("starves nobody", () => {
      const [rule, numbers] = make({ workloads: [workload("low", 1), workload("high", 99)] });
      const bench = new SchedulerBench(rule, numbers as never);
      const sources = [
        { labels: { w: "low" }, rate: 60, patienceMs: 5_000 },
        { labels: { w: "high" }, rate: 600, patienceMs: 1_000 },
      ];
      if (kind === "load") simulate(bench, sources, 31);
      const [low] = simulate(bench, sources, 40);
      assert.ok((low?.longestGapMs ?? Number.POSITIVE_INFINITY) < 2_000, JSON.stringify(low));
      assert.ok((low?.passed ?? 0) >= 60, JSON.stringify(low));
    });
  });
}

/** One event of a random history. */
type Event =
  | {
      readonly do: "ask";
      readonly w: string;
      readonly user: string;
      readonly cost: number;
      readonly patienceMs: number;
    }
  | { readonly do: "pass time"; readonly ms: number }
  | { readonly do: "leave" | "end"; readonly which: number }
  | { readonly do: "decide"; readonly limit: number; readonly passThrough: boolean }
  | { readonly do: "replace" };

const EVENT: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      w: fc.constantFrom("low", "high", "none"),
      user: fc.constantFrom("x", "y", "z"),
      cost: fc.integer({ min: 0, max: 4 }),
      patienceMs: fc.constantFrom(0, 5, 100, 2_000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("pass time" as const),
      ms: fc.integer({ min: 0, max: 500 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("leave" as const, "end" as const),
      which: fc.nat({ max: 40 }),
    }),
  },
  fc.record({
    do: fc.constant("decide" as const),
    limit: fc.integer({ min: 0, max: 5 }),
    passThrough: fc.boolean(),
  }),
  fc.record({ do: fc.constant("replace" as const) }),
);

for (const [kind, make] of Object.entries(RULES)) {
  it(`whatever happens to a ${kind} scheduler: each flow is answered once, in time, and nothing is left`, () => {
    fc.assert(
      fc.property(fc.array(EVENT, { maxLength: 120 }), (events) => {
        const [rule, numbers] = make({
          workloads: [workload("low", 1), workload("high", 8)],
          fairnessLabelKey: "user",
          tokensLabelKey: "cost",
        });
        const bench = new SchedulerBench(rule, numbers as never);
        const asked: ReturnType<SchedulerBench["ask"]>[] = [];
        let answers = 0;
        let late = 0;
        for (const event of events) {
          if (event.do === "ask") {
            const { w, user, cost, patienceMs } = event;
            const until = bench.clock.now() + patienceMs;
            asked.push(
              bench.ask({ w, user, cost: String(cost) }, { patienceMs }, () => {
                answers += 1;
                if (bench.clock.now() > until + 1e-6) late += 1;
              }),
            );
          } else if (event.do === "pass time") bench.clock.advance(event.ms);
          else if (event.do === "replace") bench.state.close();
          else if (event.do === "decide") {
            const { limit, passThrough } = event;
            const decided = {
              quota: quota(limit, limit, passThrough),
              concurrency: slots(limit, passThrough),
              load: load(limit, { passThrough }),
            };
            bench.limiter.decide(decided[kind as keyof typeof decided]);
          } else {
            const one = asked[event.which % Math.max(1, asked.length)];
            if (one === undefined) continue;
            if (event.do === "leave") one.leave();
            else bench.end(one);
          }
        }
        bench.clock.advance(3_000);
        assert.equal(answers, asked.length);
        assert.equal(late, 0);
        assert.deepEqual(bench.left, NOTHING_LEFT);
        assert.equal(bench.scheduled.length <= asked.length, true);
      }),
      { numRuns: 150 },
    );
  });
}
