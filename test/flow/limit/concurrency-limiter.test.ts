import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type CounterEngine,
  type EngineAnswer,
  type SlotParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import type { SharedCounters, SharedEngine } from "#flow/counters/shared-counters.ts";
import { grantOf, Missing, Pending } from "#flow/flow.ts";
import { LabelSlots, Labels } from "#flow/label.ts";
import { ConcurrencyLimiter, ConcurrencyState } from "#flow/limit/concurrency-limiter.ts";
import type { ConcurrencyLimiterRule } from "#flow/rules.ts";
import {
  Bench,
  concurrency,
  concurrencyRule,
  counts,
  type FlatDecision,
  flat,
  flowOf,
  testContext,
} from "./setup.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

function held(bench: Bench): { readonly slots: number; readonly keys: number } {
  assert.ok(bench.state instanceof ConcurrencyState);
  return { slots: bench.state.slots.slots, keys: bench.state.slots.keys };
}

test("check and end: as recorded", () => {
  const bench = new Bench(concurrencyRule(), concurrency(2));
  const a = bench.take();
  const b = bench.take();
  const c = bench.take();
  assert.deepEqual(counts(a), [false, 2, 0, 1, 0]);
  assert.deepEqual(counts(b), [false, 1, 1, 1, 0]);
  assert.deepEqual(counts(c), [true, 0, 2, 0, 0]);
  for (const { requestId } of [a, b, c]) assert.match(requestId, UUID);
  assert.equal(new Set([a, b, c].map(({ requestId }) => requestId)).size, 3);
  assert.equal(a.grantId, a.requestId);
  assert.equal(c.grantId, undefined);
  assert.equal(bench.end(a), true);
  assert.equal(bench.end(a), false);
  assert.deepEqual(counts(bench.take()), [false, 1, 1, 1, 0]);
  assert.deepEqual(counts(bench.take()), [true, 0, 2, 0, 0]);
  assert.equal(bench.end(b), true);
  assert.deepEqual(counts(bench.take()), [false, 1, 1, 1, 0]);
});

test("keys and tokens: as recorded, a large request only when idle", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u", tokensLabelKey: "cost", deniedStatus: 423 });
  const bench = new Bench(rule, concurrency(4));
  assert.deepEqual(counts(bench.take({ u: "x", cost: "3" })), [false, 4, 0, 3, 0]);
  assert.deepEqual(counts(bench.take({ u: "x", cost: "3" })), [true, 1, 3, 0, 0]);
  assert.deepEqual(counts(bench.take({ u: "y", cost: "9" })), [false, 4, 0, 9, 0]);
  assert.deepEqual(counts(bench.take({ u: "y", cost: "1" })), [true, -5, 9, 0, 0]);
  assert.deepEqual(counts(bench.take({ u: "z", cost: "abc" })), [false, 4, 0, 1, 0]);
  const free = bench.take({ u: "z2", cost: "0" });
  assert.deepEqual(counts(free), [false, 4, 0, 0, 0]);
  assert.equal(bench.end(free), true, "a slot without tokens is a slot");
  assert.deepEqual(counts(bench.take({ u: "z3" })), [false, 4, 0, 1, 0]);
  assert.deepEqual(counts(bench.take({ u: "neg", cost: "-2" })), [false, 4, 0, 1, 0]);
  const missing = bench.take({ cost: "2" });
  assert.equal(missing.missing, Missing.key);
  assert.equal(missing.requestId, "");
  assert.deepEqual(counts(missing), [false, 0, 0, 0, 0]);
  assert.deepEqual(bench.context.anomalies, ["bad_label_number", "bad_label_number"]);
  assert.deepEqual(bench.context.missing, ["tokens", "key"]);
});

test("open before numbers, on pass-through and after removal; a limit of 0 refuses", () => {
  const bench = new Bench(concurrencyRule());
  const open = () => {
    const decision = bench.take();
    assert.deepEqual(counts(decision), [false, 0, 0, 0, 0]);
    assert.equal(decision.label, "default");
    assert.equal(decision.requestId, "");
    assert.equal(decision.grantId, undefined);
  };
  open();
  bench.limiter.decide(concurrency(1));
  const a = bench.take();
  assert.equal(bench.take().dropped, true);
  bench.limiter.decide(concurrency(1, true));
  open();
  assert.equal(bench.end(a), false, "an open limiter ends nothing");
  assert.deepEqual(held(bench), { slots: 0, keys: 0 });
  bench.limiter.decide(undefined);
  open();
  bench.limiter.decide(concurrency(Number.NaN));
  open();
  bench.limiter.decide(concurrency(0));
  const shut = bench.take();
  assert.deepEqual(counts(shut), [true, 0, 0, 0, 0]);
  assert.match(shut.requestId, UUID);
});

test("a slot that is not ended is freed exactly when it expires", () => {
  const bench = new Bench(concurrencyRule({ maxInflightMs: 1_000 }), concurrency(2));
  const a = bench.take();
  bench.context.clock.advance(600);
  const b = bench.take();
  bench.context.clock.advance(399);
  assert.equal(bench.take().dropped, true);
  assert.equal(bench.peek().dropped, true);
  bench.context.clock.advance(1);
  assert.equal(bench.peek().dropped, false);
  assert.deepEqual(counts(bench.take()), [false, 1, 1, 1, 0]);
  assert.equal(bench.end(a), false);
  assert.equal(bench.end(b), true);
  bench.context.clock.advance(10_000);
  assert.equal(bench.peek().current, 0);
  const late = bench.take();
  bench.context.clock.advance(1_000);
  assert.equal(bench.end(late), false, "expired before anybody met it");
  assert.deepEqual(held(bench), { slots: 0, keys: 0 });
});

test("ids that are unknown, of another key, or no ids end nothing", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u" });
  const bench = new Bench(rule, concurrency(2));
  const grant = grantOf(bench.take({ u: "a" }));
  assert.ok(grant !== undefined);
  const end = (over: Partial<typeof grant>) => bench.limiter.end?.({ ...grant, ...over });
  assert.equal(end({ id: "" }), false);
  assert.equal(end({ id: "nonsense" }), false);
  assert.equal(end({ id: grant.id.toUpperCase() }), false);
  assert.equal(end({ id: "00000000-0000-4000-8000-000000000000" }), false);
  assert.equal(
    end({ id: grant.id.slice(0, 8) + bench.take({ u: "b" }).requestId.slice(8) }),
    false,
  );
  assert.equal(end({ key: "u:b" }), false);
  assert.equal(end({ key: "v:a" }), false);
  assert.equal(end({ key: "a" }), false);
  assert.equal(end({ key: "default" }), false);
  assert.equal(end({}), true);
  assert.equal(end({}), false);
  bench.take({ u: "c" }); // the freed place is used again, under another id
  assert.equal(end({}), false);
});

test("slots are carried to the next plan, whose expiry holds for all", () => {
  const first = new Bench(concurrencyRule({ maxInflightMs: 60_000 }), concurrency(1));
  const a = first.take();
  const rule = concurrencyRule({ maxInflightMs: 5_000, policyHash: "next" });
  const second = new Bench(rule, undefined, first.context, first.state);
  assert.equal(second.take().dropped, true);
  assert.equal(second.end(a), true);
  second.take();
  first.context.clock.advance(5_000);
  assert.equal(second.take().dropped, false);
});

test("against a naive model: sums, expiry and ends agree, nothing leaks", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          {
            weight: 5,
            arbitrary: fc.record({
              take: fc.nat({ max: 20 }).map((user) => `user-${user % 13}`),
              cost: fc.integer({ min: 0, max: 4 }),
            }),
          },
          { weight: 3, arbitrary: fc.record({ end: fc.nat() }) },
          { weight: 2, arbitrary: fc.record({ advance: fc.integer({ min: 0, max: 600 }) }) },
          { weight: 1, arbitrary: fc.record({ max: fc.integer({ min: 0, max: 8 }) }) },
        ),
        { maxLength: 300, size: "large" },
      ),
      (steps) => {
        const rule = concurrencyRule({
          limitByLabelKey: "u",
          tokensLabelKey: "cost",
          maxInflightMs: 1_000,
        });
        const bench = new Bench(rule, concurrency(5));
        const taken: FlatDecision[] = [];
        let model: { id: string; key: string; cost: number; until: number }[] = [];
        let max = 5;
        for (const step of steps) {
          const now = bench.context.clock.now();
          model = model.filter(({ until }) => until > now);
          if ("advance" in step) bench.context.clock.advance(step.advance);
          else if ("max" in step) {
            max = step.max;
            bench.limiter.decide(concurrency(max));
          } else if ("end" in step) {
            const decision = taken[step.end % Math.max(1, taken.length)];
            if (decision === undefined) continue;
            const known = model.some(({ id }) => id === decision.requestId);
            assert.equal(bench.end(decision), known);
            model = model.filter(({ id }) => id !== decision.requestId);
          } else {
            const sum = model
              .filter(({ key }) => key === step.take)
              .reduce((total, { cost }) => total + cost, 0);
            const fits = max > 0 && (sum === 0 || sum + step.cost <= max);
            const decision = bench.take({ u: step.take, cost: String(step.cost) });
            assert.deepEqual(counts(decision), [!fits, max - sum, sum, fits ? step.cost : 0, 0]);
            if (!fits) continue;
            taken.push(decision);
            model.push({
              id: decision.requestId,
              key: step.take,
              cost: step.cost,
              until: now + 1_000,
            });
          }
        }
        for (const decision of taken) bench.end(decision);
        assert.deepEqual(held(bench), { slots: 0, keys: 0 });
      },
    ),
    { numRuns: 300 },
  );
});

test("fractions leave no crumbs", () => {
  const bench = new Bench(concurrencyRule({ tokensLabelKey: "cost" }), concurrency(1));
  for (let round = 0; round < 1_000; round++) {
    const three = ["0.1", "0.7", "0.2"].map((cost) => bench.take({ cost }));
    assert.ok(three.every(({ dropped }) => !dropped));
    for (const decision of three) assert.equal(bench.end(decision), true);
  }
  assert.equal(bench.peek().current, 0);
  for (const cost of ["0.1", "0.2", "0.3"]) assert.equal(bench.take({ cost }).dropped, false);
  bench.context.clock.advance(60_000);
  assert.equal(bench.peek().current, 0, "expired ones neither");
});

test("full of keys: further ones share strict counts, one for many keys, and end in them", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u", maxInflightMs: 1_000 });
  const bench = new Bench(rule, concurrency(2), testContext(3));
  for (const u of ["a", "b", "c"]) assert.equal(bench.take({ u }).dropped, false);
  const twice = [bench.take({ u: "d" }), bench.take({ u: "d" })];
  assert.deepEqual(
    [...twice, bench.take({ u: "d" })].map(({ dropped }) => dropped),
    [false, false, true],
  );
  assert.deepEqual(bench.context.anomalies, Array(3).fill("keys_overflow"));
  assert.equal(bench.peek({ u: "d" }).dropped, true);
  assert.equal(bench.take({ u: "a" }).dropped, false, "a known key has its own count");
  const [first, second] = twice;
  assert.ok(first !== undefined && second !== undefined);
  assert.equal(bench.end(first), true);
  assert.equal(bench.end(first), false, "ended already");
  assert.equal(bench.take({ u: "d" }).dropped, false);

  // Whoever fills one count leaves the others: of a thousand keys, one in 256 shares that of d.
  const others = Array.from({ length: 1_000 }, (_, at) => `other-${at}`);
  const refused = others.filter((u) => bench.peek({ u }).dropped);
  assert.ok(refused.length < 20, `${refused.length} of 1000 share the count of d`);
  const passed = others.filter((u) => !bench.take({ u }).dropped).length;
  assert.ok(passed > 400 && passed <= 2 * 256, `${passed} of 1000`);

  bench.context.clock.advance(1_000);
  for (const u of ["x", "y", "z"]) assert.deepEqual(counts(bench.take({ u })), [false, 2, 0, 1, 0]);
});

test("full of slots: strict, until some expire", () => {
  const bench = new Bench(
    concurrencyRule({ maxInflightMs: 1_000 }),
    concurrency(1e9),
    testContext(1),
  );
  for (let slot = 0; slot < 65_536; slot++) bench.take();
  assert.equal(bench.take().dropped, true);
  assert.deepEqual(bench.context.anomalies, ["keys_overflow"]);
  bench.context.clock.advance(1_000);
  assert.deepEqual(counts(bench.take()), [false, 1e9, 0, 1, 0]);
  assert.deepEqual(held(bench).slots, 1);
});

test("a slot that the local engine granted in place of another engine is freed by its reported id", () => {
  const undecided: EngineAnswer = {
    outcome: "undecided",
    remaining: 0,
    current: 0,
    waitMs: 0,
    id: "",
    full: false,
  };
  const unavailable: CounterEngine<SlotParams> = {
    take: () => undecided,
    giveBack: () => assert.fail("the engine that granted nothing was asked"),
  };
  const context = testContext();
  const rule = concurrencyRule({ onFailure: "local" });
  const { component } = new Bench(rule).limiter;
  const slots = new LabelSlots();
  const state = new ConcurrencyState(context, rule, "", "");
  const limiter = new ConcurrencyLimiter(component, rule, slots, state, context, unavailable);
  limiter.decide(concurrency(1));
  const take = () => {
    const labels = new Labels(slots.schema, flowOf().labels);
    const answer = limiter.take(flowOf(), labels, context.clock.now());
    assert.ok(!(answer instanceof Pending));
    return flat(answer);
  };
  for (const giveBack of ["undo", "end"] as const) {
    const decision = take();
    const { dropped, failure, requestId } = decision;
    const grant = grantOf(decision);
    assert.deepEqual([dropped, failure], [false, "local"]);
    assert.ok(grant !== undefined);
    assert.equal(take().dropped, true, "the only slot is taken");
    limiter[giveBack]({ ...grant, id: requestId });
    assert.equal(state.slots.slots, 0);
  }
});

/** A limiter whose slots agents share, and what it told their engine. */
function shared(over: Partial<ConcurrencyLimiterRule> = {}) {
  const adopted: SlotParams[] = [];
  const ended: SlotParams[] = [];
  let closed = 0;
  const engine: SharedEngine<SlotParams> = {
    take: () => UNDECIDED,
    giveBack: (_value, _amount, _id, params) => {
      ended.push(params);
      return true;
    },
    adopt: (params) => void adopted.push(params),
    close: () => void closed++,
  };
  const sharedCounters: SharedCounters = {
    buckets: () => assert.fail("there is no rate limiter"),
    slots: () => engine,
  };
  const context = { ...testContext(), sharedCounters };
  const bench = new Bench(concurrencyRule({ maxInflightMs: 7_000, ...over }), undefined, context);
  return { bench, adopted, ended, closed: () => closed };
}

test("an engine that agents share learns each limit that counts, and no other", () => {
  const { bench, adopted, closed } = shared();
  const { limiter, state } = bench;
  limiter.decide(undefined);
  limiter.decide(concurrency(Number.NaN));
  limiter.decide(concurrency(3, true));
  for (const failure of ["open", "closed"] as const) limiter.decide({ ...concurrency(4), failure });
  assert.deepEqual(adopted, [], "no limit counts");
  limiter.decide(concurrency(5));
  limiter.decide({ ...concurrency(6), failure: "last_known" });
  assert.deepEqual(adopted, [
    { max: 5, maxInflightMs: 7_000 },
    { max: 6, maxInflightMs: 7_000 },
  ]);
  assert.equal(closed(), 0);
  state.close();
  assert.equal(closed(), 1);
});

test("a limit that stops counting leaves its last one for `last_known` alone", () => {
  const bench = new Bench(concurrencyRule({ onFailure: "last_known" }));
  const { limiter } = bench;
  const outcome = () => {
    const { outcome, dropped, failure } = bench.take();
    return [outcome, dropped, failure];
  };
  assert.deepEqual(outcome(), ["undecided", false, "open"], "there was no limit yet");
  limiter.decide(concurrency(1));
  assert.deepEqual(outcome(), ["granted", false, undefined]);
  limiter.decide(undefined);
  assert.deepEqual(outcome(), ["refused", true, "last_known"]);
  limiter.decide(concurrency(Number.NaN));
  assert.deepEqual(outcome(), ["refused", true, "last_known"]);
  limiter.decide(concurrency(2, true));
  assert.deepEqual(outcome(), ["granted", false, undefined], "its policy lets all pass");
  limiter.decide(undefined);
  assert.deepEqual(outcome(), ["refused", true, "last_known"], "2 was no limit that counted");
});

test("a slot is freed before any limit has arrived, too, without being reported as ended", () => {
  const { bench, ended } = shared();
  const grant = { policyName: "policy", componentId: "root.0", key: "default", id: "x", amount: 1 };
  assert.equal(bench.limiter.end?.(grant), false);
  bench.limiter.decide(concurrency(1));
  assert.equal(bench.limiter.end?.(grant), true);
  assert.deepEqual(ended, [
    { max: 0, maxInflightMs: 7_000 },
    { max: 1, maxInflightMs: 7_000 },
  ]);
});

const ADAPTIVE = { min: 2, max: 50, start: 10, tolerance: 1.5 };

test("an adaptive limit begins at its start, and is never above what the controller decides", () => {
  const { limiter, take } = adaptiveBench(1_000);
  assert.equal(take(100), 10);
  limiter.decide(concurrency(4));
  assert.equal(take(100), 0, "ten are in flight");
  assert.equal(adaptiveBench(4).take(100), 4);
});

test("an adaptive limit learns from flows that end, and not from those that were undone", () => {
  for (const how of ["end", "undo"] as const) {
    const { bench } = adaptiveBench(1_000);
    const { clock } = bench.context;
    for (let at = 0; at < 200; at++) {
      const taken = Array.from({ length: 11 }, () => bench.take());
      clock.advance(10);
      for (const decision of taken) bench[how](decision);
    }
    const { remaining, current } = bench.peek();
    const limit = remaining + current;
    if (how === "end") assert.ok(limit > 10, `the limit is ${limit}`);
    else assert.equal(limit, 10);
  }
});

test("each key has an adaptive limit of its own", () => {
  const rule = concurrencyRule({ adaptive: ADAPTIVE, limitByLabelKey: "user" });
  const bench = new Bench(rule, concurrency(1_000));
  const { clock } = bench.context;
  for (let at = 0; at < 200; at++) {
    const taken = Array.from({ length: 11 }, () => bench.take({ user: "a" }));
    clock.advance(10);
    for (const decision of taken) bench.end(decision);
  }
  assert.ok(bench.peek({ user: "a" }).remaining > 10);
  assert.equal(bench.peek({ user: "b" }).remaining, 10);
});

test("an engine whose limits are fixed refuses a rule with an adaptive one", () => {
  const sharedCounters: SharedCounters = {
    fixedLimits: "redis",
    buckets: () => assert.fail("there is no rate limiter"),
    slots: () => assert.fail("the rule is refused"),
  };
  const context = { ...testContext(), sharedCounters };
  const state = new Bench(concurrencyRule()).state;
  assert.throws(
    () => new Bench(concurrencyRule({ adaptive: ADAPTIVE }), undefined, context, state),
    /adaptive max_concurrency: wanted counters.engine local or peers, got redis/,
  );
  assert.doesNotThrow(() => new Bench(concurrencyRule(), undefined, context, state));
});

function adaptiveBench(max: number) {
  const bench = new Bench(concurrencyRule({ adaptive: ADAPTIVE }), concurrency(max));
  const take = (times: number) =>
    Array.from({ length: times }, () => bench.take()).filter(({ dropped }) => !dropped).length;
  return { bench, limiter: bench.limiter, take };
}
