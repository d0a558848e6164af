// How edits of a directory are noticed: by the file system's notice, by the regular look alone, and after
// the directory or a file in it could not be read for a while.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import { readDocuments, watchDirectory } from "#controller/directory.ts";
import { realClock } from "#host/clock.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { until } from "../kit/port.ts";

/** Longest pause between regular looks that leaves an edit its second, ms. */
const LONGEST_PAUSE_MS = 900;

function watching(t: TestContext, dir: string, clock: Clock) {
  const seen = { changes: 0, failures: [] as string[], broken: "" };
  const watch = watchDirectory(
    dir,
    clock,
    async () => {
      seen.changes += 1;
      if (seen.broken !== "") throw new Error(seen.broken);
      await readDocuments(dir);
    },
    (fault) => seen.failures.push(fault.message),
  );
  t.after(() => watch.close());
  return seen;
}

/** Moves the clock on, from one regular look to the next, until something is so. */
async function lookUntil(clock: ReturnType<typeof fakeClock>, what: string, holds: () => boolean) {
  await until(what, () => {
    // While a look is under way there is no alarm: it would seem to take the time by which the clock is moved on.
    if (clock.alarms > 0) clock.advance(LONGEST_PAUSE_MS);
    return holds();
  });
}

test("a notice alone makes an edit known: regular looks never come", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const real = realClock();
  let looks = 0;
  const noticesOnly: Clock = {
    ...real,
    alarm(ms, ring) {
      if (ms < 200) return real.alarm(ms, ring);
      looks += 1;
      return () => undefined;
    },
  };
  const seen = watching(t, dir, noticesOnly);
  writeFileSync(join(dir, "a.yaml"), "b");
  await until("the first edit is known", () => seen.changes === 1);
  await until("the next regular look is set", () => looks === 2);
  writeFileSync(join(dir, "a.yaml"), "c");
  await until("the second edit is known", () => seen.changes === 2);
});

test("the regular look alone makes an edit known: the file lies where no notice comes from", async (t) => {
  const elsewhere = folderOf(t, { "real.yaml": "a" });
  const dir = folderOf(t);
  symlinkSync(join(elsewhere, "real.yaml"), join(dir, "a.yaml"));
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "the first state is read", () => seen.changes === 1);
  writeFileSync(join(elsewhere, "real.yaml"), "longer");
  await lookUntil(clock, "the edit is known", () => seen.changes === 2);
});

test("notices bring a look forward and never put it off", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const pauses: number[] = [];
  const clock = fakeClock();
  const recording: Clock = {
    ...clock,
    alarm(ms, ring) {
      pauses.push(ms);
      return clock.alarm(ms, ring);
    },
  };
  watching(t, dir, recording);
  writeFileSync(join(dir, "a.yaml"), "b");
  await until("the notice came", () => pauses.length === 2);
  clock.advance(10);
  writeFileSync(join(dir, "a.yaml"), "c");
  writeFileSync(join(dir, "late.yaml"), "c");
  // Notices come in order: this directory's watch has had its turn when the later one's has.
  const other = folderOf(t, { "a.yaml": "a" });
  const later = watching(t, other, realClock());
  await until("the other is read", () => later.changes > 0);
  assert.deepEqual(pauses, [500, 50]);
});

test("a slow look makes the next one later, but an edit keeps its second", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const clock = fakeClock();
  const pauses: number[] = [];
  let spent = 0;
  const slow: Clock = {
    wall: clock.wall,
    wallSince: clock.wallSince,
    // Every question finds the clock 200 ms further on.
    now() {
      spent += 200;
      return clock.now() + spent;
    },
    alarm(ms, ring) {
      pauses.push(ms);
      return clock.alarm(ms, ring);
    },
  };
  watching(t, dir, slow);
  await lookUntil(clock, "three looks", () => pauses.length > 3);
  assert.ok(Math.max(...pauses) > 500, "a slow look is followed by a longer rest");
  assert.ok(Math.max(...pauses) <= LONGEST_PAUSE_MS, `${pauses}`);
});

test("a long reload does not put the next look off", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const clock = fakeClock();
  const pauses: number[] = [];
  let spent = 0;
  const recording: Clock = {
    wall: clock.wall,
    wallSince: clock.wallSince,
    now: () => clock.now() + spent,
    alarm(ms, ring) {
      pauses.push(ms);
      return clock.alarm(ms, ring);
    },
  };
  const reload = async () => {
    spent += 10_000;
  };
  const watch = watchDirectory(dir, recording, reload, () => undefined);
  t.after(() => watch.close());
  await lookUntil(clock, "three looks", () => pauses.length > 3);
  assert.deepEqual(new Set(pauses), new Set([500]));
});

test("a directory that was away and is back unchanged is taken in again", async (t) => {
  const root = folderOf(t);
  const dir = join(root, "policies");
  mkdirSync(dir);
  writeFileSync(join(dir, "a.yaml"), "a");
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "the first state is read", () => seen.changes === 1);
  renameSync(dir, join(root, "away"));
  // A reading that was under way may have missed a file of it first.
  const absence = /policies: .*\/policies: wanted a directory .* ENOENT/;
  const told = () => seen.failures.some((each) => absence.test(each));
  await lookUntil(clock, "its absence is told", told);
  const before = seen.changes;
  renameSync(join(root, "away"), dir);
  await lookUntil(clock, "it is taken in again", () => seen.changes > before);
});

test("what could not be taken in is tried again although nothing changed, and told once", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  seen.broken = "not now";
  await lookUntil(clock, "three tries", () => seen.changes >= 3);
  assert.equal(seen.failures.length, 1);
  seen.broken = "";
  const tries = seen.changes;
  await lookUntil(clock, "one that works", () => seen.changes > tries);
  const last = seen.changes;
  for (let turn = 0; turn < 3; turn++) {
    clock.advance(LONGEST_PAUSE_MS);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(seen.changes, last, "once it worked only changes count");
});

test("an entry that is no readable file is named, with the reason", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  mkdirSync(join(dir, "b.yaml"));
  const told = new RegExp(`${join(dir, "b.yaml")}: wanted a regular file, got a directory`);
  await assert.rejects(readDocuments(dir), told);
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "it is told", () => seen.failures.length === 1);
  assert.match(seen.failures[0] ?? "", told);
  rmdirSync(join(dir, "b.yaml"));
  const tries = seen.changes;
  await lookUntil(clock, "the rest is read", () => seen.changes > tries);
});
