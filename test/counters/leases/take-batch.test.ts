import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { batchOf, deliver, prefetchedBy, WaitingTake } from "#counters/leases/take-batch.ts";

const NOTHING_ELSE = { tokens: 0, waitMs: 0, leased: 0, recall: false, full: false };

suite("flows that travel together", () => {
  test("each have the answer of their own run", () => {
    const takes = [2, 2, 5, 2].map((want) => new WaitingTake(want));
    const batch = batchOf([...takes]);
    assert.deepEqual(batch.runs, [
      { want: 2, times: 2 },
      { want: 5, times: 1 },
      { want: 2, times: 1 },
    ]);
    const answers = new Map<WaitingTake, boolean>();
    deliver(batch, { ...NOTHING_ELSE, granted: [1, 0, 1] }, (take, granted) =>
      answers.set(take, granted),
    );
    assert.deepEqual(
      takes.map((take) => answers.get(take)),
      [true, false, false, true],
    );
  });

  test("ask for what the flows behind them want, as much as a message can carry", () => {
    // A caller names its tokens: the count must neither wrap around in 32 bits nor take time for each of them.
    for (const [behind, times] of [
      [3, 3],
      [65_536, 65_536],
      [2 ** 32, 65_536],
      [1e12, 65_536],
    ] as const) {
      const take = new WaitingTake(1, behind);
      const batch = batchOf([take]);
      assert.deepEqual(batch.runs, [
        { want: 1, times: 1 },
        { want: 1, times },
      ]);
      const reply = { ...NOTHING_ELSE, granted: [1, times] };
      let answered = 0;
      deliver(batch, reply, () => {
        answered += 1;
      });
      assert.equal(answered, 1);
      assert.deepEqual(prefetchedBy(batch, reply), { tokens: times, short: false });
    }
  });

  test("ask for nothing more where the flows behind them want less than one amount", () => {
    assert.equal(batchOf([new WaitingTake(5, 4)]).prefetches, false);
    assert.equal(batchOf([new WaitingTake(0, 4)]).prefetches, false);
  });
});
