// Rate limiters: decisions, how buckets fill, and giving tokens back.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Decision, grantOf, Missing } from "#flow/flow.ts";
import { Bench, concurrency, counts, rate, rateRule } from "./setup.ts";

test("fields of a decision", () => {
  const bench = new Bench(rateRule({ deniedStatus: 402, limitByLabelKey: "user" }), rate(2, 1));
  const { component, outcome, dropped, missing, waitMs, grantId, failure, detail } = bench.take({
    user: "x:y z",
  });
  const decision = { component, outcome, dropped, missing, waitMs, grantId, failure, detail };
  assert.deepEqual(decision, {
    component: bench.limiter.component,
    outcome: "granted",
    dropped: false,
    missing: Missing.nothing,
    waitMs: 0,
    grantId: "",
    failure: undefined,
    detail: { label: "user:x:y z", value: "x:y z", remaining: 1, current: 1, consumed: 1 },
  } satisfies Decision);
  assert.deepEqual(grantOf(decision), {
    policyName: "policy",
    componentId: "root.0",
    key: "user:x:y z",
    id: "",
    amount: 1,
  });
  assert.equal(bench.limiter.component.deniedStatus, 402);
  assert.ok(Object.isFrozen(bench.limiter.component));
  assert.equal(new Bench(rateRule(), rate(2, 1)).take().label, "default");
});

test("interval fill: as recorded", () => {
  const bench = new Bench(rateRule({ continuousFill: false, intervalMs: 3_000 }), rate(3, 2));
  const { clock } = bench.context;
  const at = (ms: number) => {
    clock.advance(1_000_000 + ms - clock.now());
    return counts(bench.take());
  };
  assert.deepEqual(at(0), [false, 2, 1, 1, 0]);
  assert.deepEqual(at(0), [false, 1, 2, 1, 0]);
  assert.deepEqual(at(0), [false, 0, 3, 1, 0]);
  assert.deepEqual(at(0), [true, 0, 3, 0, 3_000]);
  assert.deepEqual(at(2_000), [true, 0, 3, 0, 1_000]);
  assert.deepEqual(at(3_500), [false, 1, 2, 1, 0]);
  assert.deepEqual(at(3_500), [false, 0, 3, 1, 0]);
  assert.deepEqual(at(3_500), [true, 0, 3, 0, 2_500]);
  assert.deepEqual(at(5_000), [true, 0, 3, 0, 1_000]);
  assert.deepEqual(at(6_600), [false, 1, 2, 1, 0]);
  assert.deepEqual(at(13_000), [false, 2, 1, 1, 0]);
  assert.deepEqual(at(13_000), [false, 1, 2, 1, 0]);
  assert.deepEqual(at(13_000), [false, 0, 3, 1, 0]);
  assert.deepEqual(at(13_000), [true, 0, 3, 0, 2_000]);
});

test("delayed continuous fill: as recorded, armed again when found full", () => {
  const bench = new Bench(rateRule({ delayInitialFill: true }), rate(2, 1));
  const { clock } = bench.context;
  const at = (ms: number) => {
    clock.advance(1_000_000 + ms - clock.now());
    return counts(bench.take());
  };
  assert.deepEqual(at(0), [false, 1, 1, 1, 0]);
  assert.deepEqual(at(0), [false, 0, 2, 1, 0]);
  assert.deepEqual(at(0), [true, 0, 2, 0, 3_000]);
  assert.deepEqual(at(1_500), [true, 0, 2, 0, 1_500]);
  assert.deepEqual(at(2_500), [true, 0.5, 1.5, 0, 500]);
  assert.deepEqual(at(3_500), [false, 0.5, 1.5, 1, 0]);
  assert.deepEqual(at(9_700), [false, 1, 1, 1, 0]);
  assert.deepEqual(at(9_700), [false, 0, 2, 1, 0]);
  assert.deepEqual(at(9_700), [true, 0, 2, 0, 3_000]);
});

test("delayed interval fill: the wait is the one to the fill that really comes", () => {
  const rule = rateRule({ delayInitialFill: true, continuousFill: false, intervalMs: 3_000 });
  const bench = new Bench(rule, rate(2, 2));
  const { clock } = bench.context;
  assert.deepEqual(counts(bench.take()), [false, 1, 1, 1, 0]);
  assert.deepEqual(counts(bench.take()), [false, 0, 2, 1, 0]);
  assert.deepEqual(counts(bench.take()), [true, 0, 2, 0, 3_000]);
  clock.advance(1_500);
  assert.deepEqual(counts(bench.take()), [true, 0, 2, 0, 1_500]);
  clock.advance(1_500);
  // Full again, hence armed again: three seconds more.
  assert.deepEqual(counts(bench.take()), [false, 1, 1, 1, 0]);
  assert.deepEqual(counts(bench.take()), [false, 0, 2, 1, 0]);
  assert.deepEqual(counts(bench.take()), [true, 0, 2, 0, 3_000]);
});

test("delayed interval fill by single tokens: the first comes when a full bucket would have filled", () => {
  const rule = rateRule({ delayInitialFill: true, continuousFill: false, intervalMs: 3_000 });
  const bench = new Bench(rule, rate(2, 1));
  bench.take();
  bench.take();
  assert.deepEqual(counts(bench.take()), [true, 0, 2, 0, 6_000]);
  bench.context.clock.advance(6_000);
  assert.deepEqual(counts(bench.take()), [false, 0, 2, 1, 0]);
});

test("more than the capacity, no fill, no capacity: as recorded", () => {
  const rule = rateRule({ intervalMs: 10_000, limitByLabelKey: "k", tokensLabelKey: "cost" });
  const filling = new Bench(rule, rate(4, 1));
  assert.deepEqual(counts(filling.take({ k: "1", cost: "4" })), [false, 0, 4, 4, 0]);
  assert.deepEqual(counts(filling.take({ k: "2", cost: "5" })), [true, 4, 0, 0, 10_000]);
  assert.deepEqual(counts(filling.take({ k: "3", cost: "100" })), [true, 4, 0, 0, 960_000]);
  const dry = new Bench(rule, rate(4, 0));
  assert.deepEqual(counts(dry.take({ k: "1", cost: "4" })), [false, 0, 4, 4, 0]);
  assert.deepEqual(counts(dry.take({ k: "2", cost: "5" })), [true, 4, 0, 0, 0]);
  const shut = new Bench(rateRule({ intervalMs: 10_000 }), rate(0, 1));
  assert.deepEqual(counts(shut.take()), [true, 0, 0, 0, 10_000]);
  assert.deepEqual(counts(new Bench(rateRule(), rate(0, 0)).take()), [true, 0, 0, 0, 0]);
});

test("token texts: as recorded; invalid ones count as one token and as an anomaly", () => {
  const rule = rateRule({ limitByLabelKey: "k", tokensLabelKey: "cost" });
  const bench = new Bench(rule, rate(10, 0));
  const good: readonly (readonly [string, number])[] = [
    ["2", 2],
    ["0.25", 0.25],
    ["10", 10],
    ["0", 0],
    ["1e1", 10],
    ["+3", 3],
  ];
  for (const [cost, tokens] of good) {
    const decision = bench.take({ k: `good${cost}`, cost });
    assert.deepEqual(counts(decision), [false, 10 - tokens, tokens, tokens, 0], cost);
  }
  assert.deepEqual(bench.context.anomalies, []);
  const bad = ["abc", "", " 3", "3,5", "1_000", "-1", "0x1p2", "Inf", "-Inf", "infinity", "NaN"];
  for (const cost of bad) {
    assert.deepEqual(counts(bench.take({ k: `bad${cost}`, cost })), [false, 9, 1, 1, 0], cost);
  }
  assert.deepEqual(bench.context.anomalies, Array(bad.length).fill("bad_label_number"));
  assert.deepEqual(counts(bench.take({ k: "badNaN", cost: "10" })), [true, 9, 1, 0, 0]);
  assert.deepEqual(counts(bench.take({ k: "none" })), [false, 9, 1, 1, 0]);
  for (const [k, cost, wanted] of [
    ["seq", "4", [false, 6, 4, 4, 0]],
    ["seq", "4", [false, 2, 8, 4, 0]],
    ["seq", "4", [true, 2, 8, 0, 0]],
    ["seq", "2", [false, 0, 10, 2, 0]],
  ] as const) {
    assert.deepEqual(counts(bench.take({ k, cost })), wanted);
  }
});

test("a flow without the key label passes and takes nothing; an empty value is a value", () => {
  const bench = new Bench(rateRule({ limitByLabelKey: "user" }), rate(1, 0));
  const missing = bench.take({});
  assert.equal(missing.missing, Missing.key);
  assert.equal(missing.label, "");
  assert.equal(missing.grantId, undefined);
  assert.deepEqual(counts(missing), [false, 0, 0, 0, 0]);
  assert.deepEqual(bench.context.missing, ["key"]);
  assert.equal(bench.take({ user: "" }).label, "user:");
  assert.equal(bench.take({ user: "" }).dropped, true);
  assert.equal(bench.take({ user: "a" }).dropped, false);
  assert.equal(bench.take({ user: "A" }).dropped, false);
});

test("open before numbers, on pass-through, after removal and on invalid signals", () => {
  const bench = new Bench(rateRule({ limitByLabelKey: "k" }));
  const open = (why: string) => {
    const decision = bench.take({ k: "a" });
    assert.deepEqual(counts(decision), [false, 0, 0, 0, 0], why);
    assert.equal(decision.label, "k:a");
    assert.equal(decision.missing, Missing.nothing);
    assert.equal(decision.grantId, undefined);
  };
  open("before");
  bench.limiter.decide(rate(1, 0));
  assert.equal(bench.take({ k: "a" }).dropped, false);
  assert.equal(bench.take({ k: "a" }).dropped, true);
  bench.limiter.decide(rate(1, 0, true));
  open("pass-through");
  bench.limiter.decide(rate(1, 0));
  assert.equal(bench.take({ k: "a" }).dropped, true, "the bucket is still empty");
  for (const invalid of [
    undefined,
    rate(Number.NaN, 1),
    rate(Number.POSITIVE_INFINITY, 1),
    rate(1, Number.NaN),
    concurrency(0),
  ]) {
    bench.limiter.decide(invalid);
    open(JSON.stringify(invalid));
  }
  bench.limiter.decide(rate(-3, -3));
  assert.deepEqual(counts(bench.take({ k: "b" })), [true, 0, 0, 0, 0]);
});

test("new numbers: a lower capacity caps, a new fill counts from now", () => {
  const bench = new Bench(rateRule(), rate(10, 0));
  bench.take();
  bench.limiter.decide(rate(4, 0));
  assert.deepEqual(counts(bench.take()), [false, 3, 1, 1, 0]);
  bench.limiter.decide(rate(100, 0));
  assert.deepEqual(counts(bench.take()), [false, 2, 98, 1, 0]);
  bench.context.clock.advance(3_600_000);
  bench.limiter.decide(rate(100, 10));
  bench.context.clock.advance(100);
  assert.deepEqual(counts(bench.take()), [false, 2, 98, 1, 0]);
});

test("a rule with another interval takes the bucket over and fills it by its own", () => {
  const first = new Bench(rateRule({ intervalMs: 1_000 }), rate(10, 10));
  for (let taken = 0; taken < 10; taken++) first.take();
  const { context, state } = first;
  const second = new Bench(rateRule({ intervalMs: 10_000 }), undefined, context, state);
  assert.deepEqual(counts(second.take()), [true, 0, 10, 0, 1_000], "last numbers, own interval");
  context.clock.advance(1_000);
  assert.deepEqual(counts(second.take()), [false, 0, 10, 1, 0]);
});

test("tokens that are given back are available again, up to the capacity", () => {
  fc.assert(
    fc.property(
      fc.boolean(),
      fc.array(
        fc.record({
          cost: fc.double({ min: 0, max: 8, noNaN: true }).map(String),
          after: fc.constantFrom(0, 10, 1_000),
          capacity: fc.constantFrom(5, 6, 10),
          open: fc.boolean(),
        }),
        { maxLength: 40 },
      ),
      (continuousFill, steps) => {
        const bench = new Bench(rateRule({ tokensLabelKey: "cost", continuousFill }), rate(10, 1));
        for (const { cost, after, capacity, open } of steps) {
          bench.context.clock.advance(after);
          bench.limiter.decide(rate(capacity, 1));
          const before = bench.peek({ cost: "0" }).remaining;
          const decision = bench.take({ cost });
          if (open) bench.limiter.decide(undefined);
          bench.undo(decision);
          bench.limiter.decide(rate(capacity, 1));
          const { remaining } = bench.peek({ cost: "0" });
          assert.ok(Math.abs(remaining - before) < 1e-9, `${remaining} after ${before}`);
          assert.ok(remaining <= capacity);
          bench.take({ cost: "0.7" });
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("over any window: never more than capacity and refill", () => {
  fc.assert(
    fc.property(
      fc.record({
        capacity: fc.integer({ min: 0, max: 20 }),
        amount: fc.double({ min: 0, max: 20, noNaN: true }),
        continuousFill: fc.boolean(),
        delayInitialFill: fc.boolean(),
      }),
      fc.array(
        fc.record({
          after: fc.double({ min: 0, max: 900, noNaN: true }),
          cost: fc.double({ min: 0, max: 6, noNaN: true }).map(String),
        }),
        { minLength: 20, maxLength: 120 },
      ),
      ({ capacity, amount, ...form }, steps) => {
        const bench = new Bench(
          rateRule({ tokensLabelKey: "cost", ...form }),
          rate(capacity, amount),
        );
        const admitted: { readonly at: number; readonly tokens: number }[] = [];
        for (const { after, cost } of steps) {
          bench.context.clock.advance(after);
          const { consumed } = bench.take({ cost });
          admitted.push({ at: bench.context.clock.now(), tokens: consumed });
        }
        for (const [first, { at: start }] of admitted.entries()) {
          let sum = 0;
          for (const { at, tokens } of admitted.slice(first)) {
            sum += tokens;
            const intervals = (at - start) / 1_000;
            const due = form.continuousFill ? intervals : Math.ceil(intervals + 1e-6);
            assert.ok(sum <= capacity + amount * due + 1e-6, `${sum} in ${intervals} intervals`);
          }
        }
      },
    ),
    { numRuns: 200 },
  );
});
