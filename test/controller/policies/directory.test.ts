// Noticing edits of a directory: by notices of the file system, by regular checks alone, and after the
// directory or a file in it could not be read for a while.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import { readDocuments, watchDirectory } from "#controller/policies/directory.ts";
import { realClock } from "#runtime/life/clock.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { until } from "../../kit/until.ts";
import { bench, variable } from "../kit.ts";

/** Longest pause between regular checks with which an edit is noticed within a second, ms. */
const LONGEST_PAUSE_MS = 900;

/** Throws when a file or the directory cannot be read. */
async function read(dir: string): Promise<void> {
  const { unreadable } = await readDocuments([dir], 0, () => false);
  for (const fault of unreadable.values()) throw fault;
}

function watching(t: TestContext, dir: string, clock: Clock) {
  const seen = { changes: 0, failures: [] as string[], broken: "" };
  const watch = watchDirectory(
    dir,
    clock,
    async () => {
      seen.changes += 1;
      if (seen.broken !== "") throw new Error(seen.broken);
      await read(dir);
      return true;
    },
    (fault) => seen.failures.push(fault.message),
  );
  t.after(() => watch.close());
  return seen;
}

/** Advances the clock from one regular check to the next until the condition holds. */
async function lookUntil(clock: ReturnType<typeof fakeClock>, what: string, holds: () => boolean) {
  await until(what, () => {
    // During a check there is no alarm, and advancing the clock would make the check seem slow.
    if (clock.alarms > 0) clock.advance(LONGEST_PAUSE_MS);
    return holds();
  });
}

test("a notice alone is enough to find an edit, without regular checks", async (t) => {
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

test("regular checks alone are enough to find an edit, where no notices come from", async (t) => {
  const elsewhere = folderOf(t, { "real.yaml": "a" });
  const dir = folderOf(t);
  symlinkSync(join(elsewhere, "real.yaml"), join(dir, "a.yaml"));
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "the first state is read", () => seen.changes === 1);
  writeFileSync(join(elsewhere, "real.yaml"), "longer");
  await lookUntil(clock, "the edit is known", () => seen.changes === 2);
});

test("notices bring a check forward and never delay it", async (t) => {
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
  // Notices come in order: when the later directory's has come, this directory's has too.
  const other = folderOf(t, { "a.yaml": "a" });
  const later = watching(t, other, realClock());
  await until("the other is read", () => later.changes > 0);
  assert.deepEqual(pauses, [500, 50]);
});

test("a slow check delays the next one, but an edit is still found within a second", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const clock = fakeClock();
  const pauses: number[] = [];
  let spent = 0;
  const slow: Clock = {
    wall: clock.wall,
    wallOf: clock.wallOf,
    // The clock advances by 200 ms each time it is read.
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

test("a long reload does not delay the next check", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  const clock = fakeClock();
  const pauses: number[] = [];
  let spent = 0;
  const recording: Clock = {
    wall: clock.wall,
    wallOf: clock.wallOf,
    now: () => clock.now() + spent,
    alarm(ms, ring) {
      pauses.push(ms);
      return clock.alarm(ms, ring);
    },
  };
  const reload = async () => {
    spent += 10_000;
    return true;
  };
  const watch = watchDirectory(dir, recording, reload, () => undefined);
  t.after(() => watch.close());
  await lookUntil(clock, "three looks", () => pauses.length > 3);
  assert.deepEqual(new Set(pauses), new Set([500]));
});

test("a directory that disappeared and returns unchanged is read again", async (t) => {
  const root = folderOf(t);
  const dir = join(root, "policies");
  mkdirSync(dir);
  writeFileSync(join(dir, "a.yaml"), "a");
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "the first state is read", () => seen.changes === 1);
  renameSync(dir, join(root, "away"));
  // A read that was under way may have failed on one of its files first.
  const absence = /policies: .*\/policies: wanted a directory .* ENOENT/;
  const absenceReported = () => seen.failures.some((each) => absence.test(each));
  await lookUntil(clock, "its absence is reported", absenceReported);
  const before = seen.changes;
  renameSync(join(root, "away"), dir);
  await lookUntil(clock, "it is read again", () => seen.changes > before);
});

test("a failed read is repeated although nothing has changed, and reported once", async (t) => {
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

test("an entry that is not a readable file is named, with the reason", async (t) => {
  const dir = folderOf(t, { "a.yaml": "a" });
  mkdirSync(join(dir, "b.yaml"));
  const reason = new RegExp(`${join(dir, "b.yaml")}: wanted a regular file, got a directory`);
  await assert.rejects(read(dir), reason);
  const clock = fakeClock();
  const seen = watching(t, dir, clock);
  await lookUntil(clock, "the failure is reported", () => seen.failures.length === 1);
  assert.match(seen.failures[0] ?? "", reason);
  rmdirSync(join(dir, "b.yaml"));
  const tries = seen.changes;
  await lookUntil(clock, "the rest is read", () => seen.changes > tries);
});

test("files that look like policies and are not read are named in one line of the log, and in the status", async (t) => {
  const { directory, logged, status } = await bench(t, {
    files: { "a.yaml": variable(), "B.YAML": variable(), "a.yaml.bak": "", ".a.yaml.swp": "" },
  });
  const lines = logged.filter((line) => line.startsWith("not read as policies: "));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /B\.YAML; .*a\.yaml\.bak; only files directly in the directory are/);
  assert.doesNotMatch(lines[0] ?? "", /swp/);
  const shown = JSON.stringify(status.find("system/policies")?.view());
  assert.ok(shown.includes(join(directory, "B.YAML")), shown);
});
