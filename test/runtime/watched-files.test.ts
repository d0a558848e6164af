// Files that settings name: read again when they change, in use only when they can be used together.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import { WatchedFiles } from "#runtime/life/watched-files.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";

/** Two files that belong together when they hold the same text. */
function pair(t: TestContext, given = "one") {
  const folder = folderOf(t, { a: given, b: given });
  const at = (name: string) => join(folder, name);
  const clock = fakeClock();
  const log = memoryLog();
  const looked: string[] = [];
  const uses: string[] = [];
  const files = new WatchedFiles({
    setting: "the.pair",
    what: "texts",
    clock,
    log,
    files: { a_file: at("a"), b_file: at("b"), c_file: "" },
    use: (contents) => {
      const { a_file: a, b_file: b } = contents;
      assert.equal("c_file" in contents, false);
      uses.push(`${a} ${b}`);
      if (String(a) === String(b)) return String(a);
      throw new Fault("INVALID_ARGUMENT", "the.pair: wanted the same text twice");
    },
    looked: (current) => void looked.push(current),
  });
  t.after(() => files.close());
  /** Lets the poll come round, and waits until its look is over. */
  const look = async () => {
    const before = looked.length;
    clock.advance(30_000);
    await until("a look", () => looked.length > before);
  };
  const messages = () => log.lines.map(({ level, message }) => `${level}: ${message}`);
  return { at, clock, files, look, looked, uses, messages };
}

test("files that changed together are in use at the next look, and files as they were are not used again", async (t) => {
  const { at, files, look, uses, messages } = pair(t);
  await look();
  assert.deepEqual([files.current, uses], ["one", ["one one"]]);
  for (const name of ["a", "b"]) writeFileSync(at(name), "two");
  await look();
  await look();
  assert.deepEqual([files.current, uses], ["two", ["one one", "two two"]]);
  assert.deepEqual(messages(), ["info: the.pair: reloaded the texts"]);
});

test("a notice of the file system is enough", async (t) => {
  const { at, clock, files } = pair(t);
  for (const name of ["a", "b"]) writeFileSync(at(name), "two");
  // Less than a poll in all: each notice sets the alarm again.
  await until("the notice", () => clock.alarms === 2);
  clock.advance(100);
  await until("the files are in use", () => files.current === "two");
});

test("what cannot be used never replaces what is in use, and is reported once", async (t) => {
  const { at, files, look, messages } = pair(t);
  const kept = "warn: the.pair: keeping the current texts, the changed files are invalid: ";
  const complaints: string[] = [];
  const complains = async (message: RegExp) => {
    for (let looks = 0; looks < 3; looks++) await look();
    assert.equal(files.current, "one");
    const last = messages().at(-1) ?? "";
    complaints.push(last);
    assert.equal(messages().length, complaints.length);
    assert.ok(last.startsWith(kept), last);
    assert.match(last, message);
  };
  writeFileSync(at("a"), "two");
  await complains(/: the\.pair: wanted the same text twice$/);
  rmSync(at("a"));
  await complains(/: the\.pair\.a_file: .*a: wanted a file that can be read, got ENOENT/);
  execFileSync("mkfifo", [at("a")]);
  await complains(/: the\.pair\.a_file: .*a: wanted a regular file, got a pipe$/);
  rmSync(at("a"));
  writeFileSync(at("a"), "x".repeat(1024 * 1024 + 1));
  await complains(/: the\.pair\.a_file: .*a: wanted at most 1048576 bytes, got 1048577$/);
  // The same fault after the right files is another event.
  writeFileSync(at("a"), "one");
  await look();
  writeFileSync(at("a"), "x".repeat(1024 * 1024 + 1));
  await complains(/at most 1048576/);
});

test("after its end nothing is looked at, and no alarm is left", async (t) => {
  const { at, clock, files, looked } = pair(t);
  for (const name of ["a", "b"]) writeFileSync(at(name), "two");
  clock.advance(30_000);
  files.close();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([clock.alarms, looked, files.current], [0, [], "one"]);
});
