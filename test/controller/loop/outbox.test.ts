// Writes reach the store in order, with their latest values, despite failures and slow commits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox, type StoreWrites } from "#controller/loop/outbox.ts";
import type { CommitOptions, Entry, Op } from "#store/store.ts";
import { fakeClock } from "../../kit/clock.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const entries = (given: Readonly<Record<string, string | undefined>>): StoreWrites =>
  new Map(
    Object.entries(given).map(([key, text]) => [key, text && bytes(text)] as const),
  ) as StoreWrites;

function outbox() {
  const clock = fakeClock();
  const commits: Record<string, string | null>[] = [];
  const reported: string[] = [];
  let failing = false;
  let held: PromiseWithResolvers<void> | undefined;
  /** The revision at which the store has `complete`; 0 where it lacks it. */
  let complete = 0;
  const box = new Outbox({
    clock,
    store: {
      async commit(ops: readonly Op[], { guards = [] }: CommitOptions = {}) {
        if (guards.some(({ revision }) => revision !== complete)) return undefined;
        const each = ops.map((op) => {
          const value = op.kind === "put" ? new TextDecoder().decode(op.value) : null;
          return [op.key, value] as const;
        });
        commits.push(Object.fromEntries(each));
        await held?.promise;
        if (failing) throw new Error("away");
        if (ops.some(({ key }) => key === "complete")) complete = commits.length;
        return commits.length;
      },
      async list(key: string) {
        const entry: Entry = {
          key,
          value: bytes(""),
          revision: complete,
          created: complete,
          leased: false,
        };
        return { revision: commits.length, entries: complete === 0 ? [] : [entry] };
      },
    },
    complete: () => ({ kind: "put", key: "complete", value: bytes(String(commits.length)) }),
    committed: (again) => reported.push(again ? "recovered" : "committed"),
    failed: () => reported.push("failed"),
  });
  return {
    box,
    clock,
    commits,
    reported,
    fail(now: boolean) {
      failing = now;
    },
    /** Somebody else writes `complete`, or removes it where the revision is 0. */
    interfere(revision: number) {
      complete = revision;
    },
    hold() {
      held = Promise.withResolvers();
      return held;
    },
    turn: () => new Promise<void>((resolve) => setImmediate(resolve)),
  };
}

test("entries put together are committed together, at once; unchanged ones are not written", async () => {
  const { box, commits } = outbox();
  box.put(entries({ a: "1", b: "1" }));
  assert.deepEqual(commits, [{ a: "1", b: "1" }]);
  await box.settled();
  box.put(entries({ a: "1", b: "2", c: undefined }));
  await box.settled();
  box.put(entries({ a: undefined }));
  await box.settled();
  assert.deepEqual(commits.slice(1), [{ b: "2" }, { a: null }, { complete: "3" }]);
});

test("during a slow commit, the latest value of each key waits for a single next commit", async () => {
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

test("a failed commit is reported and tried again, with newer values in place of older ones", async () => {
  const { box, clock, commits, reported, fail, turn } = outbox();
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
  assert.deepEqual(reported, ["failed", "recovered"]);
});

test("a value that comes while a commit is failing replaces the one that failed", async () => {
  const { box, clock, commits, fail, hold, turn } = outbox();
  const first = hold();
  box.put(entries({ a: "1", b: "1" }));
  box.put(entries({ a: "2" }));
  fail(true);
  first.resolve();
  await turn();
  fail(false);
  clock.advance(250);
  await box.settled();
  assert.deepEqual(commits[1], { a: "2", b: "1" });
});

test("pauses between attempts double from 250 ms up to five seconds", async () => {
  const { box, clock, commits, fail, turn } = outbox();
  fail(true);
  box.put(entries({ a: "1" }));
  await turn();
  for (const [at, pause] of [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
    clock.advance(pause - 1);
    await turn();
    assert.equal(commits.length, at + 1, `before ${pause} ms`);
    clock.advance(1);
    await turn();
    assert.equal(commits.length, at + 2, `after ${pause} ms`);
  }
  await box.close();
});

test("after a failure the outcome of a commit is unknown: its keys are put or deleted again", async () => {
  const { box, clock, commits, fail, turn } = outbox();
  box.put(entries({ a: "1" }));
  await box.settled();
  fail(true);
  box.put(entries({ a: "2", b: "1" }));
  await turn();
  // The value from before the failure, and a delete of a key that may have been written.
  box.put(entries({ a: "1", b: undefined }));
  fail(false);
  clock.advance(250);
  await box.settled();
  assert.deepEqual(commits.slice(-2), [{ a: "1", b: null }, { complete: "3" }]);
});

test("a closed outbox writes nothing more and leaves no alarm", async () => {
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

test("a removal is confirmed by a commit of its own, also when it had to be tried again", async () => {
  const { box, commits, clock, fail, turn } = outbox();
  box.put(entries({ a: "1", b: "1" }));
  await box.settled();
  fail(true);
  box.put(entries({ a: undefined }));
  await turn();
  fail(false);
  clock.advance(250);
  await box.settled();
  assert.deepEqual(commits.slice(1), [{ a: null }, { a: null }, { complete: "3" }]);
  box.put(entries({ b: "2" }));
  await box.settled();
  assert.equal(commits.length, 5, "a change removes nothing");
  box.confirm();
  await box.settled();
  assert.deepEqual(commits.at(-1), { complete: "5" });
});

test("what somebody else deletes is put back, and what was deleted or is changed here is not", async () => {
  const { box, commits, hold } = outbox();
  box.put(entries({ a: "1", b: "1", c: "1" }));
  await box.settled();
  box.put(entries({ c: undefined }));
  await box.settled();
  commits.length = 0;
  assert.equal(box.putBack(["a", "c", "unknown"]), 1);
  await box.settled();
  assert.deepEqual(commits, [{ a: "1" }]);
  commits.length = 0;
  const held = hold();
  box.put(entries({ a: undefined }));
  assert.equal(box.putBack(["a"]), 0, "the delete is its own, and under way");
  box.put(entries({ b: "2" }));
  assert.equal(box.putBack(["b"]), 0, "a newer value waits");
  held.resolve();
  await box.settled();
  assert.deepEqual(commits, [{ a: null }, { complete: "1" }, { b: "2" }]);
});

test("a removal is not confirmed as long as somebody has removed the confirmation", async () => {
  const { box, clock, commits, interfere, reported, turn } = outbox();
  box.put(entries({ a: "1", b: "1", c: "1" }));
  await box.settled();
  box.put(entries({ a: undefined }));
  await box.settled();
  assert.deepEqual(commits.at(-1), { complete: "2" });
  interfere(0);
  box.put(entries({ b: undefined }));
  for (let retry = 0; retry < 5; retry++) {
    await turn();
    clock.advance(10_000);
  }
  await turn();
  assert.ok(commits.slice(3).every((each) => !("complete" in each)));
  assert.equal(reported.at(-1), "failed");
  // One that somebody else wrote is no sign of a loss.
  interfere(77);
  for (let retry = 0; retry < 2; retry++) {
    clock.advance(10_000);
    await turn();
  }
  assert.ok("complete" in (commits.at(-1) ?? {}));
  assert.equal(reported.at(-1), "recovered");
});

test("a confirmation that may have been written is written again", async () => {
  const { box, clock, commits, fail, interfere, turn } = outbox();
  box.confirm();
  await box.settled();
  fail(true);
  box.confirm();
  await turn();
  // The store has it all the same.
  interfere(50);
  fail(false);
  clock.advance(10_000);
  await turn();
  assert.deepEqual(commits.at(-1), { complete: "2" });
});
