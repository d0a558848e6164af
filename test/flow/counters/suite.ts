// The behaviour of every engine of token buckets. Each implementation runs this suite with its own time.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";

/** An engine whose time stands still until the suite advances it. */
export interface BucketBench {
  take(value: string | undefined, want: number, params: BucketParams): Promise<EngineAnswer>;
  giveBack(value: string | undefined, amount: number, params: BucketParams): Promise<void>;
  charge(value: string | undefined, amount: number, params: BucketParams): Promise<void>;
  /** Makes new numbers count from now on. */
  adopt(params: BucketParams): void;
  advance(ms: number): void | Promise<void>;
}

export const TEN_PER_SECOND: BucketParams = {
  capacity: 10,
  amount: 10,
  intervalMs: 1_000,
  continuous: true,
  delayed: false,
  maxIdleMs: 0,
  lazySyncs: 0,
};

type Step = readonly [
  passes: boolean,
  remaining: number,
  current: number,
  /** Milliseconds. */
  wait: number,
];

/** `open` makes a bench without any bucket, which is closed by the test. */
export function bucketSuite(make: string, open: () => Promise<BucketBench>): void {
  const on = (name: string, run: (bench: BucketBench) => Promise<void>) =>
    void test(`${make}: ${name}`, async () => run(await open()));

  async function expect(
    bench: BucketBench,
    params: BucketParams,
    want: number,
    step: Step,
    key: { readonly value: string | undefined } | string = "a",
  ) {
    const value = typeof key === "string" ? key : key.value;
    const { outcome, remaining, current, waitMs, full } = await bench.take(value, want, params);
    const seen = [outcome === "granted", ...[remaining, current, waitMs].map(rounded)];
    assert.deepEqual([seen, full], [step, false]);
  }

  on("a full bucket grants its capacity and no more", async (bench) => {
    const params = TEN_PER_SECOND;
    await expect(bench, params, 4, [true, 6, 4, 0]);
    await expect(bench, params, 6, [true, 0, 10, 0]);
    await expect(bench, params, 1, [false, 0, 10, 100]);
    await expect(bench, params, 0, [true, 0, 10, 0]);
    await expect(bench, params, 1, [true, 9, 1, 0], "b");
    await expect(bench, params, 1, [true, 9, 1, 0], { value: undefined });
    await expect(bench, params, 1, [true, 9, 1, 0], "");
  });

  on("keys with unusual characters are counted apart", async (bench) => {
    const params = { ...TEN_PER_SECOND, amount: 0 };
    const keys = ["{a}", "}a{", "%7Ba%7D", "a/b", "a:b", "ä", "日本", " ", "\n", "a".repeat(500)];
    for (const key of keys) await expect(bench, params, 10, [true, 0, 10, 0], key);
    for (const key of keys) await expect(bench, params, 1, [false, 0, 10, 0], key);
  });

  on("fills continuously, also by fractions of a token", async (bench) => {
    const params = TEN_PER_SECOND;
    await expect(bench, params, 10, [true, 0, 10, 0]);
    await bench.advance(150);
    await expect(bench, params, 1, [true, 0.5, 9.5, 0]);
    await expect(bench, params, 0.75, [false, 0.5, 9.5, 25]);
    await bench.advance(5_000);
    await expect(bench, params, 1, [true, 9, 1, 0]);
  });

  on("fills at the ends of intervals", async (bench) => {
    const params = { ...TEN_PER_SECOND, continuous: false, amount: 4 };
    await expect(bench, params, 10, [true, 0, 10, 0]);
    await bench.advance(999);
    await expect(bench, params, 1, [false, 0, 10, 1]);
    await bench.advance(1);
    await expect(bench, params, 1, [true, 3, 7, 0]);
    await expect(bench, params, 5, [false, 3, 7, 1_000]);
    await bench.advance(1_500);
    await expect(bench, params, 8, [false, 7, 3, 500]);
    await bench.advance(500);
    await expect(bench, params, 8, [true, 2, 8, 0]);
  });

  for (const continuous of [true, false]) {
    on(`a delayed fill starts late (continuous: ${continuous})`, async (bench) => {
      const params = { ...TEN_PER_SECOND, delayed: true, amount: 5, continuous };
      await expect(bench, params, 10, [true, 0, 10, 0]);
      await bench.advance(1_900);
      await expect(bench, params, 1, [false, 0, 10, continuous ? 300 : 100]);
      await bench.advance(continuous ? 300 : 100);
      await expect(bench, params, 1, [true, continuous ? 0 : 4, continuous ? 10 : 6, 0]);
    });
  }

  on("what is charged later is owed, and filled up first", async (bench) => {
    const params = TEN_PER_SECOND;
    await expect(bench, params, 4, [true, 6, 4, 0]);
    await bench.charge("a", 5, params);
    await expect(bench, params, 1, [true, 0, 10, 0]);
    await bench.charge("a", 20, params);
    await expect(bench, params, 1, [false, 0, 10, 2_100]);
    await bench.advance(2_000);
    await expect(bench, params, 1, [false, 0, 10, 100]);
    await bench.advance(100);
    await expect(bench, params, 1, [true, 0, 10, 0]);
    await bench.charge("b", 15, params);
    await expect(bench, params, 1, [false, 0, 10, 600], "b");
    await expect(bench, params, 1, [true, 9, 1, 0], "c");
  });

  on("what comes back fills the bucket, to its capacity", async (bench) => {
    const params = { ...TEN_PER_SECOND, amount: 0 };
    await expect(bench, params, 10, [true, 0, 10, 0]);
    await bench.giveBack("a", 3, params);
    await expect(bench, params, 1, [true, 2, 8, 0]);
    await bench.giveBack("a", 50, params);
    await expect(bench, params, 0, [true, 10, 0, 0]);
    await bench.giveBack("never used", 5, params);
    await expect(bench, params, 11, [false, 10, 0, 0], "never used");
  });

  on("a bucket that never fills has no wait", async (bench) => {
    const params = { ...TEN_PER_SECOND, amount: 0 };
    await expect(bench, params, 11, [false, 10, 0, 0]);
    await expect(bench, params, 10, [true, 0, 10, 0]);
    await bench.advance(86_400_000);
    await expect(bench, params, 1, [false, 0, 10, 0]);
  });

  on(
    "a bucket is forgotten when it is full, however long nobody used it, and not before",
    async (bench) => {
      const params = { ...TEN_PER_SECOND, amount: 1, intervalMs: 60_000, maxIdleMs: 5_000 };
      await expect(bench, params, 10, [true, 0, 10, 0]);
      await bench.advance(3 * 60_000);
      await expect(bench, params, 1, [true, 2, 8, 0]);
      await bench.advance(10 * 60_000);
      await expect(bench, params, 10, [true, 0, 10, 0]);
    },
  );

  test(`${make}: pauses of any length never make more pass than capacity and refill`, async () => {
    const params = fc.record({
      capacity: fc.constantFrom(1, 5, 100),
      amount: fc.constantFrom(0.5, 5, 100),
      intervalMs: fc.constantFrom(1_000, 60_000, 86_400_000),
      continuous: fc.boolean(),
      maxIdleMs: fc.constantFrom(0, 1_000, 7_200_000),
    });
    const pause = fc.constantFrom(0, 10, 900, 61_000, 3_700_000, 50_000_000);
    await fc.assert(
      fc.asyncProperty(params, fc.array(pause, { maxLength: 12 }), async (chosen, pauses) => {
        const bench = await open();
        const all = { ...TEN_PER_SECOND, ...chosen };
        const { capacity, amount, intervalMs } = all;
        let passed = 0;
        let time = 0;
        for (const ms of pauses) {
          for (let asked = 0; asked < 3; asked++) {
            const want = Math.ceil(capacity / 2);
            if ((await bench.take("a", want, all)).outcome === "granted") passed += want;
          }
          const most = capacity + (amount * time) / intervalMs + 1e-6;
          assert.ok(passed <= most, `${passed} of ${most} after ${time} ms`);
          await bench.advance(ms);
          time += ms;
        }
      }),
      { numRuns: 40, seed: 5 },
    );
  });

  on("a lower capacity cuts, a higher one does not fill", async (bench) => {
    const steady = { ...TEN_PER_SECOND, amount: 0 };
    await expect(bench, steady, 2, [true, 8, 2, 0]);
    await expect(bench, { ...steady, capacity: 5 }, 1, [true, 4, 1, 0]);
    await expect(bench, { ...steady, capacity: 20 }, 1, [true, 3, 17, 0]);
  });

  on(
    "a higher capacity adds nothing to a bucket in use, and at most fills one that is full",
    async (bench) => {
      const higher = { ...TEN_PER_SECOND, capacity: 40 };
      await expect(bench, TEN_PER_SECOND, 10, [true, 0, 10, 0]);
      await bench.advance(500);
      bench.adopt(higher);
      await expect(bench, higher, 5, [true, 0, 40, 0]);
      bench.adopt(TEN_PER_SECOND);
      await bench.advance(2_000);
      bench.adopt(higher);
      const { outcome, remaining } = await bench.take("a", 10, higher);
      assert.equal(outcome, "granted", "it was full by the lower one");
      assert.ok(remaining <= 30, `${remaining} tokens are left`);
    },
  );

  on("a new rate counts from its change on", async (bench) => {
    const slow = { ...TEN_PER_SECOND, capacity: 1_000, amount: 1 };
    const fast = { ...slow, amount: 100 };
    await expect(bench, slow, 1_000, [true, 0, 1_000, 0]);
    await bench.advance(3_000);
    bench.adopt(fast);
    await bench.advance(2_000);
    await expect(bench, fast, 3, [true, 200, 800, 0]);
    await bench.advance(1_000);
    bench.adopt(slow);
    await bench.advance(5_000);
    await expect(bench, slow, 5, [true, 300, 700, 0]);
  });
}

/** To a millionth: sums of fractions are not exact. */
export function rounded(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
