import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { LogFile, type Rotation } from "#telemetry/log/file.ts";
import { fakeClock } from "../../kit/clock.ts";

const KEEP: Rotation = { max_size: 1, max_backups: 0, max_age: 0, compress: false };
const DAY_MS = 86_400_000;
const START = Date.UTC(2026, 0, 1);
/** A third of a megabyte and a bit: three do not fit into one. */
const LINE = `${"x".repeat(349_999)}\n`;

function directory(context: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "sluice-file-"));
  context.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function marked(mark: number): string {
  return `${mark}${LINE.slice(String(mark).length)}`;
}

/** The marks of all lines in a directory, oldest file first, the current one last. */
function marks(made: string): number[] {
  const names = readdirSync(made).filter((name) => /^a(-.*)?\.log(\.gz)?$/.test(name));
  const rank = (name: string) => (name === "a.log" ? "~" : name);
  return names
    .sort((one, other) => (rank(one) < rank(other) ? -1 : 1))
    .flatMap((name) => {
      const bytes = readFileSync(join(made, name));
      const text = (name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
      return text
        .split("\n")
        .filter(Boolean)
        .map((line) => Number.parseInt(line, 10));
    });
}

test("a file rotates before it exceeds its size, and no line is lost or cut", async (context) => {
  const made = directory(context);
  const clock = fakeClock(0, START);
  const file = new LogFile(join(made, "a.log"), KEEP, clock);
  for (let mark = 1; mark <= 7; mark++) {
    if (mark % 2 === 0) file.writeNow([marked(mark)]);
    else await file.write([marked(mark)]);
    clock.advance(1_500);
  }
  await file.close();
  assert.deepEqual(readdirSync(made).sort(), [
    "a-2026-01-01T00-00-03.000Z.log",
    "a-2026-01-01T00-00-06.000Z.log",
    "a-2026-01-01T00-00-09.000Z.log",
    "a.log",
  ]);
  assert.deepEqual(marks(made), [1, 2, 3, 4, 5, 6, 7]);
});

test("a file may rotate within a batch, and files of the same millisecond get different names", async (context) => {
  const made = directory(context);
  const file = new LogFile(join(made, "a.log"), KEEP, fakeClock(0, START));
  await file.write([1, 2, 3, 4, 5].map(marked));
  await file.close();
  assert.deepEqual(readdirSync(made).sort(), [
    "a-2026-01-01T00-00-00.000Z-1.log",
    "a-2026-01-01T00-00-00.000Z.log",
    "a.log",
  ]);
  assert.deepEqual(marks(made).sort(), [1, 2, 3, 4, 5]);
});

test("max_size 0 never rotates; a line above the size is written whole", async (context) => {
  const made = directory(context);
  const endless = new LogFile(join(made, "a.log"), { ...KEEP, max_size: 0 }, fakeClock());
  for (let mark = 1; mark <= 5; mark++) endless.writeNow([marked(mark)]);
  await endless.close();
  assert.deepEqual(readdirSync(made), ["a.log"]);

  const whole = new LogFile(join(made, "b.log"), KEEP, fakeClock());
  const long = `${"y".repeat(1_500_000)}\n`;
  whole.writeNow([long, "z\n"]);
  await whole.close();
  assert.equal(readFileSync(join(made, "b.log"), "utf8"), "z\n");
});

test("max_backups keeps the newest", async (context) => {
  const made = directory(context);
  const clock = fakeClock(0, START);
  const file = new LogFile(join(made, "a.log"), { ...KEEP, max_backups: 2 }, clock);
  for (let mark = 1; mark <= 12; mark++) {
    file.writeNow([marked(mark)]);
    clock.advance(1_000);
  }
  await file.close();
  assert.deepEqual(marks(made), [7, 8, 9, 10, 11, 12]);
});

test("max_age deletes older files, even while nothing rotates", async (context) => {
  const made = directory(context);
  const clock = fakeClock(0, START);
  const file = new LogFile(join(made, "a.log"), { ...KEEP, max_age: 2 }, clock);
  for (let mark = 1; mark <= 5; mark++) {
    file.writeNow([marked(mark)]);
    clock.advance(DAY_MS);
  }
  // Put aside on the days 2 and 4; now it is the fifth: the first one is three days old.
  await file.write(["6\n"]);
  await file.close();
  assert.deepEqual(marks(made), [3, 4, 5, 6]);

  const later = new LogFile(join(made, "a.log"), { ...KEEP, max_age: 2 }, clock);
  clock.advance(3 * DAY_MS);
  later.writeNow(["7\n"]);
  await later.close();
  assert.deepEqual(marks(made), [5, 6, 7]);
});

test("compress compresses rotated files, including those of an earlier process", async (context) => {
  const made = directory(context);
  writeFileSync(join(made, "a-2025-12-31T00-00-00.000Z.log"), "0\n");
  writeFileSync(join(made, "a-2025-12-30T00-00-00.000Z.log.gz.part"), "half");
  const clock = fakeClock(0, START);
  const file = new LogFile(join(made, "a.log"), { ...KEEP, compress: true }, clock);
  for (let mark = 1; mark <= 5; mark++) {
    file.writeNow([marked(mark)]);
    clock.advance(1_000);
  }
  await file.close();
  assert.deepEqual(readdirSync(made).sort(), [
    "a-2025-12-31T00-00-00.000Z.log.gz",
    "a-2026-01-01T00-00-02.000Z.log.gz",
    "a-2026-01-01T00-00-04.000Z.log.gz",
    "a.log",
  ]);
  assert.deepEqual(marks(made), [0, 1, 2, 3, 4, 5]);
});

test("files with other names are left alone", async (context) => {
  const made = directory(context);
  const others = [
    "a-notes.log",
    "b-2020-01-01T00-00-00.000Z.log",
    "a-2020-01-01T00-00-00.000Z.txt",
    "ab.log",
  ];
  for (const name of others) writeFileSync(join(made, name), "");
  const clock = fakeClock(0, START);
  const file = new LogFile(join(made, "a.log"), { ...KEEP, max_backups: 1, max_age: 1 }, clock);
  for (let mark = 1; mark <= 6; mark++) {
    file.writeNow([marked(mark)]);
    clock.advance(1_000);
  }
  await file.close();
  for (const name of others) assert.ok(readdirSync(made).includes(name), name);
  assert.deepEqual(marks(made).filter(Number.isFinite), [3, 4, 5, 6]);
});

test("an existing file is continued, and its size counts", async (context) => {
  const made = directory(context);
  writeFileSync(join(made, "a.log"), [1, 2].map(marked).join(""));
  const file = new LogFile(join(made, "a.log"), KEEP, fakeClock(0, START));
  file.writeNow([marked(3)]);
  await file.close();
  assert.equal(readdirSync(made).length, 2);
  assert.deepEqual(marks(made), [1, 2, 3]);
});

test("a file that another program moved away can still rotate", async (context) => {
  const made = directory(context);
  const file = new LogFile(join(made, "a.log"), KEEP, fakeClock(0, START));
  file.writeNow([1, 2].map(marked));
  renameSync(join(made, "a.log"), join(made, "moved"));
  file.writeNow([marked(3)]);
  await file.close();
  assert.deepEqual(marks(made), [3]);
});

test("all lines, whatever their lengths, appear in order across the files", async (context) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.integer({ min: 1, max: 700_000 }), { maxLength: 3 }), { maxLength: 5 }),
      async (batches) => {
        const made = directory(context);
        const clock = fakeClock(0, START);
        const file = new LogFile(join(made, "a.log"), KEEP, clock);
        let mark = 0;
        const wanted: number[] = [];
        for (const batch of batches) {
          const lines = batch.map((length) => {
            wanted.push(++mark);
            return `${mark} ${"x".repeat(length)}\n`;
          });
          await file.write(lines);
          clock.advance(1);
        }
        await file.close();
        assert.deepEqual(
          marks(made).sort((one, other) => one - other),
          wanted,
        );
        rmSync(made, { recursive: true });
      },
    ),
    { numRuns: 20 },
  );
});

test("a file is opened again between two writes, and its size counts anew", async (context) => {
  const made = directory(context);
  const path = join(made, "a.log");
  const file = new LogFile(path, KEEP, fakeClock(0, START));
  const first = file.write([1, 2].map(marked));
  renameSync(path, join(made, "moved"));
  file.reopen();
  file.reopen();
  await first;
  await file.write([3, 4].map(marked));
  await file.close();
  assert.equal(readFileSync(join(made, "moved")).length, 2 * LINE.length);
  assert.deepEqual(marks(made), [3, 4], "two lines fit, so nothing was rotated");
  assert.deepEqual(readdirSync(made).sort(), ["a.log", "moved"]);
});

test("a folder that the system lets nobody create is refused at once", () => {
  // In a process of its own: the loop that this is about would never return.
  const script = `
    import { LogFile } from "#telemetry/log/file.ts";
    try {
      new LogFile("/proc/nope/deep/a.log", {}, { wall: () => 0 });
    } catch ({ code, message }) {
      console.log(code, message);
    }`;
  const args = ["--input-type=module-typescript", "--eval", script];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 30_000 });
  assert.match(stdout, /^INVALID_ARGUMENT log\.writers: .*\/proc\/nope\/deep\/a\.log, got ENOENT/);
});
