// The behaviour of every engine of concurrency slots. Each implementation runs this suite with its own time.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import { rounded } from "./suite.ts";

/** An engine whose time stands still until the suite advances it. */
export interface SlotBench {
  take(value: string | undefined, want: number, params: SlotParams): Promise<EngineAnswer>;
  end(value: string | undefined, id: string, params: SlotParams): Promise<boolean>;
  advance(ms: number): void;
}

export const TWO_FOR_A_SECOND: SlotParams = { max: 2, maxInflightMs: 1_000 };

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

type Step = readonly [
  passes: boolean,
  remaining: number,
  /** In flight before the take. */
  current: number,
];

/** `open` makes a bench without any slot, which is closed by the test. */
export function slotSuite(make: string, open: () => Promise<SlotBench>): void {
  const on = (name: string, run: (bench: SlotBench) => Promise<void>) =>
    void test(`${make}: ${name}`, async () => run(await open()));

  /** Takes, and returns the id of the slot. */
  async function expect(
    bench: SlotBench,
    params: SlotParams,
    want: number,
    step: Step,
    key: { readonly value: string | undefined } | string = "a",
  ): Promise<string> {
    const value = typeof key === "string" ? key : key.value;
    const answer = await bench.take(value, want, params);
    const { outcome, remaining, current, waitMs, id, full } = answer;
    const seen = [outcome === "granted", rounded(remaining), rounded(current)];
    assert.deepEqual([seen, waitMs, full], [step, 0, false]);
    assert.match(id, UUID);
    return id;
  }

  on("as many tokens as the limit are in flight, for each key", async (bench) => {
    const params = TWO_FOR_A_SECOND;
    const ids = [
      await expect(bench, params, 1, [true, 2, 0]),
      await expect(bench, params, 1, [true, 1, 1]),
      await expect(bench, params, 1, [false, 0, 2]),
      await expect(bench, params, 1, [true, 2, 0], "b"),
      await expect(bench, params, 1, [true, 2, 0], { value: undefined }),
      await expect(bench, params, 1, [true, 2, 0], ""),
    ];
    assert.equal(new Set(ids).size, ids.length);
  });

  on("keys with unusual characters are counted apart", async (bench) => {
    const params = { ...TWO_FOR_A_SECOND, max: 1 };
    const keys = ["{a}", "}a{", "%7Ba%7D", "a/b", "a:b", "ä", "日本", " ", "\n", "a".repeat(500)];
    const ids: string[] = [];
    for (const key of keys) ids.push(await expect(bench, params, 1, [true, 1, 0], key));
    for (const key of keys) await expect(bench, params, 1, [false, 0, 1], key);
    for (const [at, key] of keys.entries()) {
      assert.equal(await bench.end(key, ids[at] ?? "", params), true);
    }
  });

  on("a slot is ended once", async (bench) => {
    const params = TWO_FOR_A_SECOND;
    const first = await expect(bench, params, 1, [true, 2, 0]);
    const second = await expect(bench, params, 1, [true, 1, 1]);
    assert.equal(await bench.end("a", first, params), true);
    assert.equal(await bench.end("a", first, params), false);
    await expect(bench, params, 1, [true, 1, 1]);
    await expect(bench, params, 1, [false, 0, 2]);
    assert.equal(await bench.end("a", second, params), true);
    await expect(bench, params, 1, [true, 1, 1]);
  });

  on("ids that are unknown, of another key or no ids end nothing", async (bench) => {
    const params = TWO_FOR_A_SECOND;
    const id = await expect(bench, params, 0.5, [true, 2, 0]);
    const free = await expect(bench, params, 1, [true, 2, 0], "b");
    for (const wrong of [
      "",
      "nonsense",
      "sum",
      `w${id}`,
      id.toUpperCase(),
      `${id} `,
      free,
      "00000000-0000-4000-8000-000000000000",
    ]) {
      assert.equal(await bench.end("a", wrong, params), false, wrong);
    }
    assert.equal(await bench.end("b", id, params), false);
    assert.equal(await bench.end(undefined, id, params), false);
    await expect(bench, params, 0, [true, 1.5, 0.5]);
    assert.equal(await bench.end("a", id, params), true);
  });

  on("a slot that nobody ends expires exactly when its time is over", async (bench) => {
    const params = TWO_FOR_A_SECOND;
    const first = await expect(bench, params, 1, [true, 2, 0]);
    bench.advance(600);
    const second = await expect(bench, params, 1, [true, 1, 1]);
    bench.advance(399);
    await expect(bench, params, 1, [false, 0, 2]);
    bench.advance(1);
    await expect(bench, params, 1, [true, 1, 1]);
    assert.equal(await bench.end("a", first, params), false);
    assert.equal(await bench.end("a", second, params), true);
    const late = await expect(bench, params, 1, [true, 1, 1]);
    bench.advance(1_000);
    assert.equal(await bench.end("a", late, params), false, "expired before anybody met it");
    await expect(bench, params, 1, [true, 2, 0]);
  });

  on("D-3: behind an expired slot, an end frees its own slot and no other", async (bench) => {
    const params = { max: 4, maxInflightMs: 1_000 };
    await expect(bench, params, 1, [true, 4, 0]);
    bench.advance(500);
    const second = await expect(bench, params, 1.5, [true, 3, 1]);
    const third = await expect(bench, params, 0.25, [true, 1.5, 2.5]);
    bench.advance(500);
    assert.equal(await bench.end("a", second, params), true);
    await expect(bench, params, 1, [true, 3.75, 0.25]);
    assert.equal(await bench.end("a", second, params), false);
    assert.equal(await bench.end("a", third, params), true);
    await expect(bench, params, 1, [true, 3, 1]);
  });

  on("D-38: a large request passes only when nothing else is in flight", async (bench) => {
    const params = { max: 4, maxInflightMs: 1_000 };
    const large = await expect(bench, params, 9, [true, 4, 0]);
    await expect(bench, params, 1, [false, -5, 9]);
    assert.equal(await bench.end("a", large, params), true);
    const small = await expect(bench, params, 3, [true, 4, 0]);
    await expect(bench, params, 2, [false, 1, 3]);
    await expect(bench, params, 1, [true, 1, 3]);
    assert.equal(await bench.end("a", small, params), true);
    await expect(bench, params, 9, [false, 3, 1]);
  });

  on("a limit of 0 refuses all, also what wants nothing", async (bench) => {
    const params = { max: 0, maxInflightMs: 1_000 };
    await expect(bench, params, 1, [false, 0, 0]);
    await expect(bench, params, 0, [false, 0, 0]);
  });

  on("fractions and nothing are tokens, and leave no crumbs", async (bench) => {
    const params = { max: 1, maxInflightMs: 1_000 };
    for (let round = 0; round < 20; round++) {
      const ids: string[] = [];
      for (const want of [0.1, 0.7, 0.2, 0]) {
        const { outcome, id } = await bench.take("a", want, params);
        assert.equal(outcome, "granted");
        ids.push(id);
      }
      for (const id of ids) assert.equal(await bench.end("a", id, params), true);
    }
    for (const want of [0.1, 0.2, 0.3]) await bench.take("a", want, params);
    bench.advance(1_000);
    await expect(bench, params, 1, [true, 1, 0]);
  });

  on("a lower limit ends nothing, a higher one makes room", async (bench) => {
    const params = TWO_FOR_A_SECOND;
    const id = await expect(bench, params, 1, [true, 2, 0]);
    await expect(bench, params, 1, [true, 1, 1]);
    await expect(bench, { ...params, max: 1 }, 1, [false, -1, 2]);
    await expect(bench, { ...params, max: 3 }, 1, [true, 1, 2]);
    assert.equal(await bench.end("a", id, { ...params, max: 1 }), true);
    await expect(bench, { ...params, max: 1 }, 1, [false, -1, 2]);
  });

  on("a new time holds for all slots", async (bench) => {
    const long = { max: 1, maxInflightMs: 60_000 };
    const short = { max: 1, maxInflightMs: 5_000 };
    const id = await expect(bench, long, 1, [true, 1, 0]);
    bench.advance(5_000);
    assert.equal(await bench.end("a", id, short), false);
    await expect(bench, long, 1, [true, 1, 0]);
    bench.advance(4_999);
    await expect(bench, short, 1, [false, 0, 1]);
    bench.advance(1);
    await expect(bench, short, 1, [true, 1, 0]);
  });
}
