// A full key table forgets buckets: no key gets more than its limit for it, and hardly any gets less.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import { BucketTables } from "#flow/counters/local/bucket-row.ts";
import { ForgottenBuckets } from "#flow/counters/local/forgotten-buckets.ts";
import { KeyHash } from "#flow/counters/local/keys/key-hash.ts";
import { LocalBuckets } from "#flow/counters/local/local-buckets.ts";
import { RefillHistory } from "#flow/counters/local/refill-history.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { fakeClock } from "../../../kit/clock.ts";

const PARAMS: BucketParams = {
  capacity: 10,
  amount: 0,
  intervalMs: 1_000,
  continuous: true,
  delayed: false,
  maxIdleMs: 0,
  lazySyncs: 0,
};

function bench(maxKeys: number, clock = fakeClock()) {
  const forgotten = { count: 0 };
  const context = {
    clock,
    observer: { ...NO_OBSERVER, anomaly: () => forgotten.count++ },
    keyHash: KeyHash.seeded(seededChance(1)),
    maxKeys,
    bucketTables: new BucketTables(maxKeys),
  };
  const buckets = new LocalBuckets(context, "");
  return {
    clock,
    buckets,
    forgotten,
    passes: (key: string, want: number, params: BucketParams) =>
      buckets.take(key, want, params, clock.now()).outcome === "granted",
    peeks: (key: string, want: number, params: BucketParams) =>
      buckets.peek(key, want, params, clock.now()).outcome === "granted",
  };
}

describe("a table with fewer rows than keys", () => {
  const step = fc.record({
    key: fc.nat({ max: 12 }).map((n) => `user-${n}`),
    want: fc.constantFrom(0, 0.5, 1, 2, 5),
    after: fc.constantFrom(0, 0, 0, 1, 90, 400, 1_000, 3_700),
    /** Number of steps after which the tokens come back; undefined: never. */
    backAfter: fc.constantFrom(undefined, 0, 1, 5, 20),
    amount: fc.constantFrom(0, 0.3, 1, 4),
  });
  const forms = { continuous: fc.boolean(), delayed: fc.boolean() };

  // Buckets that fill in steps are tested below: one that was forgotten may take its next step earlier.
  it("admits no flow that a table with room for all keys would refuse after the same flows", () => {
    let refused = 0;
    let passed = 0;
    fc.assert(
      fc.property(
        fc.record({
          continuous: fc.constant(true),
          delayed: forms.delayed,
          amount: fc.constantFrom(0, 0.3, 1, 4),
        }),
        fc.constantFrom(1, 3, 7),
        fc.array(step, { maxLength: 150, size: "max" }),
        (form, capacity, steps) => {
          const small = bench(3);
          const large = bench(1_000, small.clock);
          let params = { ...PARAMS, ...form, capacity };
          const backs: { readonly key: string; readonly want: number; readonly at: number }[] = [];
          for (const [at, { key, want, after, backAfter, amount }] of steps.entries()) {
            small.clock.advance(after);
            if (!form.delayed && amount !== params.amount && after > 1_000)
              params = { ...params, amount };
            const foreseen = small.peeks(key, want, params);
            const passes = small.passes(key, want, params);
            assert.equal(passes, foreseen, "a peek foresees what a take does");
            if (passes) assert.ok(large.passes(key, want, params), `${key} gets ${want}`);
            else if (large.peeks(key, want, params)) refused++;
            if (passes) passed++;
            // A bucket that waits when it is full may get fewer tokens because some came back.
            if (passes && backAfter !== undefined && !form.delayed)
              backs.push({ key, want, at: at + backAfter });
            for (const back of backs.filter((each) => each.at === at)) {
              if (small.buckets.giveBack(back.key, back.want, "", params))
                large.buckets.giveBack(back.key, back.want, "", params);
            }
          }
        },
      ),
      { numRuns: 2_000, seed: 1 },
    );
    assert.ok(
      passed > 20 * refused,
      `${refused} refused without need beside ${passed} that passed`,
    );
  });

  it("admits no more than capacity and refill over any period, whenever tokens come back", () => {
    fc.assert(
      fc.property(
        fc.record(forms),
        fc.constantFrom(1, 3, 7),
        fc.array(step, { maxLength: 80, size: "max" }),
        (form, capacity, steps) => {
          const { clock, buckets, passes } = bench(3);
          const amount = 0.3;
          const params = { ...PARAMS, ...form, amount, capacity };
          /** Tokens that were taken, by key; negative when they came back. */
          const taken = new Map<string, { readonly now: number; readonly tokens: number }[]>();
          const backs: { readonly key: string; readonly want: number; readonly at: number }[] = [];
          for (const [at, { key, want, after, backAfter }] of steps.entries()) {
            clock.advance(after);
            const now = clock.now();
            const log = taken.get(key) ?? [];
            taken.set(key, log);
            if (passes(key, want, params)) {
              log.push({ now, tokens: want });
              if (backAfter !== undefined) backs.push({ key, want, at: at + backAfter });
            }
            for (const back of backs.filter((each) => each.at === at)) {
              if (buckets.giveBack(back.key, back.want, "", params))
                taken.get(back.key)?.push({ now, tokens: -back.want });
            }
          }
          for (const [key, log] of taken) {
            for (const [from, { now: start }] of log.entries()) {
              let sum = 0;
              for (const { now, tokens } of log.slice(from)) {
                sum += tokens;
                const intervals = (now - start) / params.intervalMs;
                const refill = amount * (form.continuous ? intervals : Math.floor(intervals) + 1);
                assert.ok(sum <= capacity + refill + 1e-6, `${key} gets ${sum}`);
              }
            }
          }
        },
      ),
      { numRuns: 1_000, seed: 1 },
    );
  });

  it("gives nobody tokens by a capacity that rises", () => {
    const flow = fc.record({
      key: fc.nat({ max: 12 }).map((n) => `user-${n}`),
      want: fc.constantFrom(0.5, 1, 2, 5),
      more: fc.constantFrom(0, 0, 0, 0.3, 4),
    });
    let passed = 0;
    fc.assert(
      fc.property(fc.array(flow, { maxLength: 150, size: "max" }), (flows) => {
        const small = bench(3);
        const large = bench(1_000, small.clock);
        let params = { ...PARAMS, capacity: 1 };
        for (const { key, want, more } of flows) {
          if (more > 0) params = { ...params, capacity: params.capacity + more };
          const foreseen = small.peeks(key, want, params);
          const passes = small.passes(key, want, params);
          assert.equal(passes, foreseen, "a peek foresees what a take does");
          if (passes) passed++;
          const wanted = large.passes(key, want, params);
          if (passes) assert.ok(wanted, `${key} gets ${want}`);
        }
      }),
      { numRuns: 500, seed: 1 },
    );
    assert.ok(passed > 1_000);
  });

  for (const form of [
    { continuous: true, amount: 1 },
    { continuous: false, amount: 2 },
  ]) {
    it(`counts an emptied bucket on where its capacity rises and falls, ${form.continuous ? "continuously" : "in steps"}`, () => {
      const params = { ...PARAMS, ...form };
      const small = bench(1);
      const large = bench(1_000, small.clock);
      for (const { passes } of [small, large]) {
        assert.ok(passes("ann", 10, params));
        assert.ok(passes("bob", 10, params));
      }
      for (const [after, capacity] of [
        [3_000, 100],
        [0, 4],
        [2_000, 12],
        [1_000, 12],
      ] as const) {
        small.clock.advance(after);
        const now = small.clock.now();
        for (const key of ["ann", "bob"]) {
          const [got, wanted] = [small, large].map(
            ({ buckets }) => buckets.peek(key, 1, { ...params, capacity }, now).remaining,
          );
          assert.equal(got, wanted, `${key} after a capacity of ${capacity}`);
        }
      }
    });
  }

  it("keeps the interval of a bucket that fills in steps", () => {
    const params = { ...PARAMS, capacity: 2, amount: 2, continuous: false };
    const { clock, passes } = bench(1);
    assert.ok(passes("ann", 1, params));
    clock.advance(400);
    assert.ok(passes("bob", 2, params), "has used more than ann, who is forgotten");
    assert.ok(passes("ann", 1, params), "what ann had left");
    assert.ok(!passes("ann", 1, params));
    clock.advance(599);
    assert.ok(!passes("ann", 1, params));
    clock.advance(1);
    assert.ok(passes("ann", 2, params), "a second after ann's first flow");
  });
});

describe("what is remembered", () => {
  const params = { ...PARAMS, amount: 1 };
  const level = (missing: number, now: number) => ({
    available: params.capacity - missing,
    mark: now,
  });

  function remembered({ amount, intervalMs } = params) {
    const refill = new RefillHistory();
    refill.change(0, amount, intervalMs);
    const forgotten = new ForgottenBuckets(refill, 1);
    forgotten.adopt(params, 0);
    return forgotten;
  }

  it("is never more than a bucket held, however many keys share its cells", () => {
    const forgotten = remembered();
    const chance = seededChance(2);
    const word = () => Math.floor(chance() * 2 ** 32);
    const keys = Array.from({ length: 1_000 }, (_, at) => {
      const [lo, hi, missing, added] = [word(), word(), 10 * chance(), 5 * at];
      forgotten.add(lo, hi, level(missing, added), params, added);
      return { lo, hi, missing, added };
    });
    const now = 6_000;
    let exact = 0;
    for (const { lo, hi, missing, added } of keys) {
      const wanted = Math.min(params.capacity, params.capacity - missing + (now - added) / 1_000);
      const found = forgotten.find(lo, hi, params, now)
        ? forgotten.found.available
        : params.capacity;
      assert.ok(found <= wanted + 1e-9, `${found} of ${wanted}`);
      if (found > wanted - 1e-9) exact++;
    }
    // Four keys on average have each cell.
    assert.ok(exact > 500 && exact < 1_000, `${exact} of 1000 are exact`);
  });

  it("ends when the bucket is full", () => {
    const steps = { ...params, amount: 4, continuous: false };
    const forgotten = remembered(steps);
    forgotten.add(7, 9, level(8, 0), steps, 0);
    assert.ok(forgotten.find(7, 9, steps, 1_999));
    assert.ok(!forgotten.find(7, 9, steps, 2_000));
    forgotten.add(7, 9, level(1, 2_000), steps, 2_000);
    assert.ok(forgotten.find(7, 9, steps, 2_000));
    assert.deepEqual(forgotten.found, { available: 9, mark: 2_000 });
  });
});

describe("a flood of invented keys", () => {
  const MAX_KEYS = 10_000;

  /** Honest newcomers of a hundred whose first flow passes. */
  function newcomers(
    { passes }: Pick<ReturnType<typeof bench>, "passes">,
    params: BucketParams,
    name: string,
  ): number {
    let count = 0;
    for (let user = 0; user < 100; user++) if (passes(`${name}-${user}`, 1, params)) count++;
    return count;
  }

  it("takes no tokens from newcomers, during the flood and after it", () => {
    for (const capacity of [2, 3, 10]) {
      const flood = bench(MAX_KEYS);
      const params = { ...PARAMS, capacity };
      // The one who is blocked must stay so.
      assert.ok(flood.passes("blocked", capacity, params));
      let invented = 0;
      for (let round = 0; round < 4; round++) {
        for (let key = 0; key < MAX_KEYS / 2; key++) flood.passes(`key-${invented++}`, 1, params);
        assert.equal(newcomers(flood, params, `new-${round}`), 100, `capacity ${capacity}`);
        assert.ok(!flood.passes("blocked", 1, params));
      }
      assert.ok(flood.forgotten.count >= MAX_KEYS);
    }
  });

  it("refuses few newcomers where the limit is one flow, as long as it forgets few keys", () => {
    const flood = bench(MAX_KEYS);
    const params = { ...PARAMS, capacity: 1 };
    for (let key = 0; key < MAX_KEYS * 1.05; key++) flood.passes(`key-${key}`, 1, params);
    const passed = newcomers(flood, params, "new");
    assert.ok(passed >= 90, `${passed} of 100`);
  });

  it("is forgotten as fast as its buckets fill", () => {
    const flood = bench(MAX_KEYS);
    const params = { ...PARAMS, capacity: 1, amount: 1 };
    for (let key = 0; key < 5 * MAX_KEYS; key++) flood.passes(`key-${key}`, 1, params);
    assert.ok(newcomers(flood, params, "during") < 50);
    flood.clock.advance(params.intervalMs);
    assert.equal(newcomers(flood, params, "after"), 100);
  });

  it("evicts nobody who has used more than it", () => {
    const flood = bench(MAX_KEYS);
    for (let user = 0; user < 1_000; user++) flood.passes(`heavy-${user}`, 5, PARAMS);
    for (let key = 0; key < 5 * MAX_KEYS; key++) flood.passes(`key-${key}`, 1, PARAMS);
    let exact = 0;
    for (let user = 0; user < 1_000; user++)
      if (flood.buckets.peek(`heavy-${user}`, 0, PARAMS, flood.clock.now()).remaining === 5)
        exact++;
    assert.ok(exact >= 990, `${exact} of 1000 are still counted exactly`);
  });
});
