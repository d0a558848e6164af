// Rate limiters that are always asked together keep their buckets in one table: they must decide as they would with
// tables of their own.

import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import fc from "fast-check";
import { KeySegment } from "#flow/counters/local/keys/key-segment.ts";
import { MAX_COLUMNS } from "#flow/counters/local/keys/shared-tables.ts";
import { grantOf } from "#flow/flow.ts";
import { RateState } from "#flow/limit/rate-limiter.ts";
import type { RateLimiterRule } from "#flow/rules.ts";
import {
  Bench,
  counts,
  type FlatDecision,
  rate,
  rateRule,
  type TestContext,
  testContext,
} from "./setup.ts";

const KEYED = rateRule({ limitByLabelKey: "k" });

function keysOf({ state }: Bench): number {
  assert.ok(state instanceof RateState);
  return state.buckets.keys;
}

/**
 * Limiters of different numbers and forms that are keyed by the same label. None fills by intervals, and no capacity
 * changes: there it matters when a full bucket is forgotten, because a new one starts another interval, or is fuller.
 */
const FORMS: readonly { readonly rule: RateLimiterRule; readonly capacity: number }[] = [
  { rule: KEYED, capacity: 3 },
  { rule: { ...KEYED, intervalMs: 700 }, capacity: 2 },
  { rule: { ...KEYED, maxIdleMs: 2_000, tokensLabelKey: "cost" }, capacity: 5 },
  { rule: { ...KEYED, delayInitialFill: true }, capacity: 4 },
];

describe("limiters that share a table", () => {
  const step = fc.record({
    kind: fc.constantFrom("take", "take", "take", "peek", "undo", "decide", "replace"),
    limiter: fc.nat({ max: FORMS.length - 1 }),
    k: fc.integer({ min: 0, max: 40 }).map((n) => `user-${n}`),
    cost: fc.constantFrom("0", "1", "2", "9"),
    after: fc.constantFrom(0, 0, 1, 100, 900, 5_000),
  });

  it("decide as limiters with tables of their own, also while others come and go", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: "max" }), (steps) => {
        const together = testContext();
        const apart = FORMS.map(() => testContext());
        const make = (at: number, context: TestContext) => {
          const { rule = KEYED, capacity = 1 } = FORMS[at] ?? {};
          return new Bench(rule, rate(capacity, 1), context);
        };
        const pairs = apart.map((own, at) => [make(at, together), make(at, own)] as const);
        const taken = new Map<number, readonly [FlatDecision, FlatDecision]>();
        for (const { kind, limiter, k, cost, after } of steps) {
          for (const context of [together, ...apart]) context.clock.advance(after);
          const [shared, own] = pairs[limiter] ?? [];
          if (shared === undefined || own === undefined) continue;
          if (kind === "take") {
            const both = [shared.take({ k, cost }), own.take({ k, cost })] as const;
            assert.deepEqual(counts(both[0]), counts(both[1]));
            taken.set(limiter, both);
          } else if (kind === "peek") {
            assert.deepEqual(counts(shared.peek({ k, cost })), counts(own.peek({ k, cost })));
          } else if (kind === "undo") {
            const both = taken.get(limiter);
            if (both !== undefined)
              [shared, own].map((bench, at) => bench.undo(both[at] ?? both[0]));
          } else if (kind === "decide") {
            const { capacity = 1 } = FORMS[limiter] ?? {};
            for (const { limiter } of [shared, own]) limiter.decide(rate(capacity, Number(cost)));
          } else {
            shared.state.close();
            own.state.close();
            pairs[limiter] = [make(limiter, together), make(limiter, apart[limiter] ?? together)];
            taken.delete(limiter);
          }
        }
        for (const { anomalies } of [together, ...apart]) assert.deepEqual(anomalies, []);
      }),
      { numRuns: 300 },
    );
  });

  it("look a key up once for all of them", () => {
    const context = testContext();
    const benches = Array.from({ length: 10 }, () => new Bench(KEYED, rate(5, 0), context));
    const ask = (k: string) => benches.map((bench) => bench.take({ k }).remaining);
    ask("ann");
    ask("bob");
    const seek = mock.method(KeySegment.prototype, "seek");
    try {
      assert.deepEqual(ask("ann"), Array(10).fill(3));
      assert.equal(seek.mock.callCount(), 1);
    } finally {
      seek.mock.restore();
    }
    assert.deepEqual(benches.map(keysOf), Array(10).fill(2));
  });

  it("are those with equal selectors and one key label", () => {
    const context = testContext();
    const selector = (controlPoint: string) => ({
      controlPoint,
      agentGroup: "default",
      service: "any",
      matcher: { labels: {}, list: [], expression: undefined },
    });
    const all = [
      { ...KEYED, selectors: [selector("a"), selector("b")] },
      { ...KEYED, selectors: [selector("b"), selector("a")], policyName: "other" },
      { ...KEYED, selectors: [selector("a")] },
      { ...KEYED, selectors: [selector("a"), selector("b")], limitByLabelKey: "other" },
    ].map((rule) => new Bench(rule, rate(5, 0), context));
    for (const [at, bench] of all.entries()) {
      for (let key = 0; key <= at; key++) bench.take({ k: `${at}-${key}`, other: `${at}-${key}` });
    }
    assert.deepEqual(all.map(keysOf), [3, 3, 3, 4]);
  });

  it("hold no more keys together than one may, and each remembers those that it forgot", () => {
    const context = testContext(10);
    const [first, second] = [
      new Bench(KEYED, rate(2, 0), context),
      new Bench(KEYED, rate(3, 0), context),
    ];
    for (let key = 0; key < 10; key++) first.take({ k: `user-${key}` });
    assert.equal(second.take({ k: "user-7" }).remaining, 2, "there is a row for this key");
    assert.deepEqual(context.anomalies, []);
    assert.equal(second.peek({ k: "new" }).remaining, 2);
    assert.equal(second.take({ k: "new" }).remaining, 2);
    assert.equal(second.take({ k: "newer" }).remaining, 2);
    assert.equal(first.take({ k: "new" }).remaining, 1);
    assert.ok(context.anomalies.length >= 2);
    assert.equal(keysOf(second), 10);
    for (let key = 0; key < 10; key++) {
      const k = `user-${key}`;
      assert.equal(first.take({ k }).remaining, 0, k);
      assert.equal(second.peek({ k }).remaining, key === 7 ? 1 : 2, k);
    }
  });

  it("forget a key once none of them needs it", () => {
    const context = testContext(10);
    const slow = new Bench(KEYED, rate(2, 1), context);
    const quick = new Bench(KEYED, rate(2, 100), context);
    for (let key = 0; key < 10; key++) {
      quick.take({ k: `user-${key}` });
      if (key < 5) slow.take({ k: `user-${key}` });
    }
    context.clock.advance(500);
    for (let key = 0; key < 5; key++) assert.equal(quick.take({ k: `new-${key}` }).remaining, 1);
    assert.deepEqual(context.anomalies, []);
    quick.take({ k: "one-more" });
    assert.deepEqual(context.anomalies, ["keys_overflow"]);
    for (let key = 0; key < 5; key++) assert.equal(slow.peek({ k: `user-${key}` }).remaining, 0.5);
  });

  it("are divided among tables of bounded width", () => {
    const context = testContext();
    const benches = Array.from(
      { length: MAX_COLUMNS + 1 },
      () => new Bench(KEYED, rate(2, 0), context),
    );
    for (const bench of benches) bench.take({ k: "ann" });
    const [first, last] = [benches[0], benches.at(-1)];
    assert.ok(first !== undefined && last !== undefined);
    last.take({ k: "bob" });
    assert.deepEqual([keysOf(first), keysOf(last)], [1, 2]);
    for (const bench of benches) assert.equal(bench.take({ k: "ann" }).remaining, 0);
  });

  it("leave nothing behind when they are closed, and still answer a check that began before", () => {
    const context = testContext();
    const [closed, open] = [
      new Bench(KEYED, rate(2, 0), context),
      new Bench(KEYED, rate(2, 0), context),
    ];
    const before = closed.take({ k: "ann" });
    open.take({ k: "ann" });
    closed.state.close();
    assert.ok(grantOf(before) !== undefined);
    closed.undo(before);
    assert.equal(closed.take({ k: "ann" }).remaining, 1);
    assert.equal(open.take({ k: "ann" }).remaining, 0);
    open.state.close();
    const next = new Bench(KEYED, rate(2, 0), context);
    assert.equal(next.take({ k: "bob" }).remaining, 1);
    assert.equal(keysOf(next), 1, "a table of its own: the last one left with its last limiter");
  });
});
