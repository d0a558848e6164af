// What is published reaches the store in order, whole and as it was last, through failures and slow commits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Entries, Outbox } from "#controller/outbox.ts";
import type { Op } from "#store/store.ts";
import { fakeClock } from "../kit/clock.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const entries = (given: Readonly<Record<string, string | undefined>>): Entries =>
  new Map(
    Object.entries(given).map(([key, text]) => [key, text && bytes(text)] as const),
  ) as Entries;

function outbox() {
  const clock = fakeClock();
  const commits: Record<string, string | null>[] = [];
  const told: string[] = [];
  let failing = false;
  let held: PromiseWithResolvers<void> | undefined;
  const box = new Outbox({
    clock,
    store: {
      async commit(ops: readonly Op[]) {
        const each = ops.map((op) => {
          const value = op.kind === "put" ? new TextDecoder().decode(op.value) : null;
          return [op.key, value] as const;
        });
        commits.push(Object.fromEntries(each));
        await held?.promise;
        if (failing) throw new Error("away");
        return commits.length;
      },
    },
    committed: (again) => told.push(again ? "well again" : "well"),
    failed: () => told.push("failed"),
  });
  return {
    ...{ box, clock, commits, told },
    fail(now: boolean) {
      failing = now;
    },
    hold() {
      held = Promise.withResolvers();
      return held;
    },
    turn: () => new Promise<void>((resolve) => setImmediate(resolve)),
  };
}

test("what is given together is committed together, at once; what changes nothing is not written", async () => {
  const { box, commits } = outbox();
  box.put(entries({ a: "1", b: "1" }));
  assert.deepEqual(commits, [{ a: "1", b: "1" }]);
  await box.settled();
  box.put(entries({ a: "1", b: "2", c: undefined }));
  await box.settled();
  box.put(entries({ a: undefined }));
  await box.settled();
  assert.deepEqual(commits.slice(1), [{ b: "2" }, { a: null }]);
});

test("while a commit is slow the latest value of each key waits, in one next commit", async () => {
  const { box, commits, hold } = outbox();
  const first = hold();
  box.put(entries({ a: "1" }));
  box.put(entries({ a: "2" }));
  box.put(entries({ a: "3", b: "3" }));
  box.put(entries({ b: undefined }));
  assert.deepEqual(commits, [{ a: "1" }]);
  first.resolve();
  await box.settled();
  assert.deepEqual(commits, [{ a: "1" }, { a: "3" }]);
});

test("a commit that fails is tried again, newer values in place of older ones, and told", async () => {
  const { box, clock, commits, told, fail, turn } = outbox();
  fail(true);
  box.put(entries({ a: "1", b: "1" }));
  await turn();
  box.put(entries({ a: "2" }));
  await turn();
  assert.equal(commits.length, 1, "it rests");
  fail(false);
  clock.advance(250);
  await box.settled();
  assert.deepEqual(commits[1], { a: "2", b: "1" });
  assert.deepEqual(told, ["failed", "well again"]);
});

test("after a failure nothing is taken as written: what may stand is deleted, what may not is put", async () => {
  const { box, clock, commits, fail, turn } = outbox();
  box.put(entries({ a: "1" }));
  await box.settled();
  fail(true);
  box.put(entries({ a: "2", b: "1" }));
  await turn();
  // Back to what stood before, and away with what may have been written.
  box.put(entries({ a: "1", b: undefined }));
  fail(false);
  clock.advance(250);
  await box.settled();
  assert.deepEqual(commits.at(-1), { a: "1", b: null });
});

test("closed, it writes no more and leaves no alarm", async () => {
  const { box, clock, commits, fail, turn } = outbox();
  fail(true);
  box.put(entries({ a: "1" }));
  await turn();
  await box.close();
  clock.advance(60_000);
  assert.equal(commits.length, 1);
  assert.equal(clock.alarms, 0);
  await box.settled();
});
