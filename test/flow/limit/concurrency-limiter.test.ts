import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Decision } from "#flow/flow.ts";
import { ConcurrencyState } from "#flow/limit/concurrency-limiter.ts";
import { Bench, concurrency, concurrencyRule, testWorld, told } from "./setup.ts";

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
  assert.deepEqual(told(a), [false, 2, 0, 1, 0]);
  assert.deepEqual(told(b), [false, 1, 1, 1, 0]);
  assert.deepEqual(told(c), [true, 0, 2, 0, 0]);
  for (const { requestId } of [a, b, c]) assert.match(requestId, UUID);
  assert.equal(new Set([a, b, c].map(({ requestId }) => requestId)).size, 3);
  assert.equal(a.grant?.id, a.requestId);
  assert.equal(c.grant, undefined);
  assert.equal(bench.end(a), true);
  assert.equal(bench.end(a), false);
  assert.deepEqual(told(bench.take()), [false, 1, 1, 1, 0]);
  assert.deepEqual(told(bench.take()), [true, 0, 2, 0, 0]);
  assert.equal(bench.end(b), true);
  assert.deepEqual(told(bench.take()), [false, 1, 1, 1, 0]);
});

test("keys and tokens: as recorded, a large request only when idle", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u", tokensLabelKey: "cost", deniedStatus: 423 });
  const bench = new Bench(rule, concurrency(4));
  assert.deepEqual(told(bench.take({ u: "x", cost: "3" })), [false, 4, 0, 3, 0]);
  assert.deepEqual(told(bench.take({ u: "x", cost: "3" })), [true, 1, 3, 0, 0]);
  assert.deepEqual(told(bench.take({ u: "y", cost: "9" })), [false, 4, 0, 9, 0]);
  assert.deepEqual(told(bench.take({ u: "y", cost: "1" })), [true, -5, 9, 0, 0]);
  assert.deepEqual(told(bench.take({ u: "z", cost: "abc" })), [false, 4, 0, 1, 0]);
  const free = bench.take({ u: "z2", cost: "0" });
  assert.deepEqual(told(free), [false, 4, 0, 0, 0]);
  assert.equal(bench.end(free), true, "a slot without tokens is a slot");
  assert.deepEqual(told(bench.take({ u: "z3" })), [false, 4, 0, 1, 0]);
  assert.deepEqual(told(bench.take({ u: "neg", cost: "-2" })), [false, 4, 0, 1, 0]);
  const missing = bench.take({ cost: "2" });
  assert.equal(missing.keyMissing, true);
  assert.equal(missing.requestId, "");
  assert.deepEqual(told(missing), [false, 0, 0, 0, 0]);
  assert.deepEqual(bench.world.oddities, [
    "bad_label_number",
    "bad_label_number",
    "missing_limit_label",
  ]);
});

test("open before numbers, on pass-through and after removal; a limit of 0 refuses", () => {
  const bench = new Bench(concurrencyRule());
  const open = () => {
    const decision = bench.take();
    assert.deepEqual(told(decision), [false, 0, 0, 0, 0]);
    assert.equal(decision.label, "default");
    assert.equal(decision.requestId, "");
    assert.equal(decision.grant, undefined);
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
  assert.deepEqual(told(shut), [true, 0, 0, 0, 0]);
  assert.match(shut.requestId, UUID);
});

test("a slot that nobody ends is free again, exactly then", () => {
  const bench = new Bench(concurrencyRule({ maxInflightMs: 1_000 }), concurrency(2));
  const a = bench.take();
  bench.world.clock.advance(600);
  const b = bench.take();
  bench.world.clock.advance(399);
  assert.equal(bench.take().dropped, true);
  assert.equal(bench.peek().dropped, true);
  bench.world.clock.advance(1);
  assert.equal(bench.peek().dropped, false);
  assert.deepEqual(told(bench.take()), [false, 1, 1, 1, 0]);
  assert.equal(bench.end(a), false);
  assert.equal(bench.end(b), true);
  bench.world.clock.advance(10_000);
  assert.equal(bench.peek().current, 0);
  const late = bench.take();
  bench.world.clock.advance(1_000);
  assert.equal(bench.end(late), false, "expired before anybody met it");
  assert.deepEqual(held(bench), { slots: 0, keys: 0 });
});

test("ids that are unknown, of another key, or no ids end nothing", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u" });
  const bench = new Bench(rule, concurrency(2));
  const { grant } = bench.take({ u: "a" });
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
  const second = new Bench(rule, undefined, first.world, first.state);
  assert.equal(second.take().dropped, true);
  assert.equal(second.end(a), true);
  second.take();
  first.world.clock.advance(5_000);
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
        const taken: Decision[] = [];
        let model: { id: string; key: string; cost: number; until: number }[] = [];
        let max = 5;
        for (const step of steps) {
          const now = bench.world.clock.now();
          model = model.filter(({ until }) => until > now);
          if ("advance" in step) bench.world.clock.advance(step.advance);
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
            assert.deepEqual(told(decision), [!fits, max - sum, sum, fits ? step.cost : 0, 0]);
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
  bench.world.clock.advance(60_000);
  assert.equal(bench.peek().current, 0, "expired ones neither");
});

test("full of keys: further ones share one strict count, and end in it", () => {
  const rule = concurrencyRule({ limitByLabelKey: "u", maxInflightMs: 1_000 });
  const bench = new Bench(rule, concurrency(2), testWorld(3));
  for (const u of ["a", "b", "c"]) assert.equal(bench.take({ u }).dropped, false);
  const d = bench.take({ u: "d" });
  const e = bench.take({ u: "e" });
  assert.deepEqual([d.dropped, e.dropped, bench.take({ u: "f" }).dropped], [false, false, true]);
  assert.deepEqual(bench.world.oddities, Array(3).fill("keys_overflow"));
  assert.equal(bench.peek({ u: "g" }).dropped, true);
  assert.equal(bench.take({ u: "a" }).dropped, false, "a known key has its own count");
  assert.equal(bench.end(d), true);
  assert.equal(bench.take({ u: "f" }).dropped, false);
  bench.world.clock.advance(1_000);
  for (const u of ["x", "y", "z"]) assert.deepEqual(told(bench.take({ u })), [false, 2, 0, 1, 0]);
  // The three above and the two of the shared count, which nobody has looked at since.
  assert.deepEqual(held(bench), { slots: 5, keys: 3 });
});

test("full of slots: strict, until some expire", () => {
  const bench = new Bench(
    concurrencyRule({ maxInflightMs: 1_000 }),
    concurrency(1e9),
    testWorld(1),
  );
  for (let slot = 0; slot < 65_536; slot++) bench.take();
  assert.equal(bench.take().dropped, true);
  assert.deepEqual(bench.world.oddities, ["keys_overflow"]);
  bench.world.clock.advance(1_000);
  assert.deepEqual(told(bench.take()), [false, 1e9, 0, 1, 0]);
  assert.deepEqual(held(bench).slots, 1);
});
