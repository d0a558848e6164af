// The deletes that an agent follows, and those that it takes for a loss of the store.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoreUpdate } from "#store/store.ts";
import { keepRules, RuleKeeper } from "#sync/follow/rule-keeper.ts";
import { COMPLETE, componentName, configKey, decisionKey } from "#sync/keys.ts";
import { heldBytes } from "../kit/attack/memory.ts";
import { fakeClock } from "../kit/clock.ts";

const keyOf = (kind: string, component: string, group = "default") =>
  configKey(kind, componentName(group, "p", component));
const A = keyOf("rate_limiter", "root.0");
const B = keyOf("rate_limiter", "root.1");
const NUMBERS = decisionKey("rate_limiter", componentName("default", "p", "root.0"));
const SAMPLER = keyOf("sampler", "root.2");
const ALL = [A, B, NUMBERS, SAMPLER];

let revision = 0;
function batch(
  puts: readonly string[],
  deletes: readonly string[] = [],
  changed: { readonly reset?: boolean; readonly complete?: string } = {},
): StoreUpdate {
  const { complete, ...rest } = changed;
  revision += 1;
  const written = { revision, created: revision, leased: false };
  const entries = puts.map((key) => ({ key, value: new Uint8Array(), ...written }));
  const value = new TextEncoder().encode(complete);
  const marker = complete === undefined ? [] : [{ key: COMPLETE, value, ...written }];
  return { revision, puts: [...entries, ...marker], deletes, ...rest };
}

function keeperWith(complete?: string): RuleKeeper {
  const keeper = new RuleKeeper("default");
  keeper.take(batch(ALL, [], complete === undefined ? {} : { complete }));
  return keeper;
}

test("a controller that confirms nothing removes a rule at once, while others of its kind stay", () => {
  const keeper = keeperWith();
  assert.deepEqual(keeper.take(batch([], [A])).deletes, [A]);
  assert.equal(keeper.keptKeys, 0);
});

test("a rule or its numbers that somebody deletes stay, until a controller writes them again or confirms their end", () => {
  for (const deleted of [A, NUMBERS]) {
    const keeper = keeperWith("1");
    assert.deepEqual(keeper.take(batch([], [deleted])).deletes, []);
    assert.equal(keeper.keptKeys, 1);
    keeper.take(batch([deleted]));
    assert.equal(keeper.keptKeys, 0);
    assert.deepEqual(keeper.take(batch([], [deleted])).deletes, []);
    assert.deepEqual(keeper.take(batch([], [], { complete: "2" })).deletes, [deleted]);
    assert.equal(keeper.keptKeys, 0);
  }
});

test("when the last rule of a kind goes, it stays until a controller confirms what it removed", () => {
  for (const last of [[SAMPLER], [NUMBERS], ALL]) {
    const keeper = keeperWith("1");
    assert.deepEqual(keeper.take(batch([], last)).deletes, []);
    assert.equal(keeper.keptKeys, last.length);
    const { deletes } = keeper.take(batch([], [], { complete: "2" }));
    assert.deepEqual([...deletes].sort(), [...last].sort());
    assert.equal(keeper.keptKeys, 0);
  }
});

test("a removal that is confirmed in the same batch is followed at once", () => {
  const keeper = keeperWith();
  assert.deepEqual(keeper.take(batch([], ALL, { complete: "1" })).deletes, ALL);
});

test("what is missing after a reset stays, however much is left, and what is written again is no longer missing", () => {
  const keeper = keeperWith("1");
  assert.deepEqual(keeper.take(batch([B], [A], { reset: true })).deletes, []);
  assert.equal(keeper.keptKeys, 1);
  keeper.take(batch([A]));
  assert.equal(keeper.keptKeys, 0);
  const removed = keeper.take(batch([], [A], { complete: "2" }));
  assert.deepEqual(removed.deletes, [A], "an ordinary removal later");
});

test("the confirmation in a backup says nothing, and one written since then does", () => {
  const old = keeperWith("1");
  assert.deepEqual(old.take(batch([B], [A], { reset: true, complete: "1" })).deletes, []);
  const written = keeperWith("1");
  assert.deepEqual(written.take(batch([B], [A], { reset: true, complete: "2" })).deletes, [A]);
});

test("deletes that come while others are held back are held back too", () => {
  const keeper = keeperWith();
  keeper.take(batch([], [SAMPLER]));
  assert.deepEqual(keeper.take(batch([], [A])).deletes, []);
  assert.equal(keeper.keptKeys, 2);
});

test("keys of another group whose name begins alike count for nothing", () => {
  const other = keyOf("rate_limiter", "root.0", "default-2");
  const keeper = keeperWith();
  keeper.take(batch([other]));
  assert.deepEqual(keeper.take(batch([], [A, B])).deletes, [], "its own are all gone");
  assert.equal(keeper.keptKeys, 2);
});

/** Batches that a test hands over one by one. */
function kept() {
  const clock = fakeClock();
  const reports: number[] = [];
  const given: ((batch: StoreUpdate | undefined) => void)[] = [];
  async function* source(): AsyncIterable<StoreUpdate> {
    for (;;) {
      const next = await new Promise<StoreUpdate | undefined>((give) => given.push(give));
      if (next === undefined) return;
      yield next;
    }
  }
  const deleted: string[][] = [];
  const ended = (async () => {
    const options = { group: "default", clock, kept: (keys: number) => void reports.push(keys) };
    for await (const { deletes } of keepRules(source(), options)) deleted.push([...deletes]);
  })();
  const turn = () => new Promise<void>((done) => setImmediate(done));
  const give = async (next?: StoreUpdate) => {
    await turn();
    given.shift()?.(next);
    await turn();
  };
  return { clock, reports, deleted, give, turn, ended };
}

test("beside a controller that confirms nothing, lost rules go once others have been written and it is done", async () => {
  const { clock, reports, deleted, give, turn, ended } = kept();
  await give(batch(ALL));
  await give(batch([], ALL));
  clock.advance(3_600_000);
  await turn();
  assert.deepEqual(deleted, [[], []], "nothing was written, so everything stays");
  assert.deepEqual(reports, [4]);
  await give(batch([A, NUMBERS]));
  clock.advance(9_000);
  await give(batch([B]));
  clock.advance(9_000);
  await turn();
  assert.deepEqual(reports, [4, 2, 1], "it still writes");
  clock.advance(1_000);
  await turn();
  assert.deepEqual(deleted.at(-1), [SAMPLER]);
  assert.deepEqual(reports, [4, 2, 1, 0]);
  await give();
  await ended;
  assert.equal(clock.alarms, 0);
});

test("a removal that is confirmed soon is not reported", async () => {
  const { clock, reports, deleted, give, turn, ended } = kept();
  await give(batch(ALL, [], { complete: "1" }));
  await give(batch([], ALL));
  clock.advance(500);
  await give(batch([], [], { complete: "2" }));
  clock.advance(60_000);
  await turn();
  assert.deepEqual(deleted.at(-1), ALL);
  assert.deepEqual(reports, []);
  await give();
  await ended;
});

test("where a controller confirms, nothing but its confirmation ends what is kept", async () => {
  const { clock, reports, deleted, give, turn, ended } = kept();
  await give(batch(ALL, [], { complete: "1" }));
  await give(batch([], ALL, { reset: true }));
  await give(batch([A]));
  clock.advance(3_600_000);
  await turn();
  assert.deepEqual(deleted, [[], [], []], "it may have ended while it wrote its rules again");
  assert.deepEqual(reports, [3]);
  await give(batch([], [], { complete: "2" }));
  assert.equal(deleted.at(-1)?.length, 3);
  await give();
  await ended;
});

test("whoever deletes the confirmation changes to a controller that confirms nothing, whatever else a batch brings", () => {
  const counts = (change: StoreUpdate) => {
    const keeper = keeperWith("1");
    keeper.take(change);
    keeper.take(batch([], ALL));
    keeper.take(batch([A]));
    return keeper.unconfirmedWrites;
  };
  assert.equal(counts(batch([], [COMPLETE])), 1, "alone");
  assert.equal(counts(batch([B], [A, COMPLETE])), 1, "merged with other changes");
  assert.equal(counts(batch([], [COMPLETE], { reset: true })), 0, "lost by the store");
  assert.equal(counts(batch([], [...ALL, COMPLETE])), 0, "everything was deleted");
  assert.equal(counts(batch([], [COMPLETE], { complete: "2" })), 0, "and written again");
});

test("batches that were handed on leave nothing behind", async () => {
  const one = batch([A]);
  // So many that code which the runtime compiles meanwhile is a few bytes for each.
  const counts = { batches: 200_000, seen: 0 };
  let before = 0;
  async function* source(): AsyncIterable<StoreUpdate> {
    for (let count = -1_000; count < counts.batches; count++) {
      if (count === 0) before = heldBytes();
      await Promise.resolve();
      yield one;
    }
    const bytes = (heldBytes() - before) / counts.batches;
    assert.ok(bytes < 64, `${bytes} bytes for each batch`);
  }
  const options = { group: "default", clock: fakeClock(), kept: () => undefined };
  for await (const _ of keepRules(source(), options)) counts.seen += 1;
  assert.equal(counts.seen, 1_000 + counts.batches);
});
