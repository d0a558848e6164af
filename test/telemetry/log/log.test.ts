import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { safeLine } from "#telemetry/log/line.ts";
import { type LogPlace, type LogSettings, openLog } from "#telemetry/log/log.ts";
import { QUEUE_LINES, type Sink } from "#telemetry/log/sink.ts";
import { fakeClock } from "../../kit/clock.ts";

const QUIET: LogSettings = {
  level: "info",
  non_blocking: false,
  pretty_console: false,
  format: "auto",
  writers: [],
};
const WRITER = { file: "stderr", compress: false, max_age: 7, max_backups: 3, max_size: 50 };

interface Memory extends Sink {
  readonly lines: string[];
  closed: number;
}

function memory(): Memory {
  const lines: string[] = [];
  const sink: Memory = {
    lines,
    closed: 0,
    writeNow: (more) => void lines.push(...more),
    write: async (more) => void lines.push(...more),
    close: async () => {
      sink.closed += 1;
    },
  };
  return sink;
}

function place(
  over: Partial<LogPlace> = {},
): LogPlace & { readonly stderr: Memory; readonly stdout: Memory } {
  return {
    service: "sluice-agent",
    clock: fakeClock(0, Date.UTC(2026, 0, 2, 3, 4, 5, 678)),
    ...over,
    stderr: memory(),
    stdout: memory(),
  };
}

function directory(context: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "sluice-log-"));
  context.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

test("a line is one JSON object with the documented fields", async () => {
  const where = place();
  const log = openLog(QUIET, where);
  log
    .child("listener")
    .warn(
      { port: 1, error: new Error("outer", { cause: new Fault("INTERNAL", "inner") }) },
      "hello",
    );
  await log.close();
  assert.equal(where.stderr.lines.length, 1);
  const { stack, ...line } = JSON.parse(where.stderr.lines[0] ?? "");
  assert.deepEqual(line, {
    level: "warn",
    time: "2026-01-02T03:04:05.678Z",
    service: "sluice-agent",
    component: "listener",
    port: 1,
    error: "outer: inner",
    message: "hello",
  });
  assert.match(stack, /log\.test\.ts/);
});

test("a Fault is logged without a stack", async () => {
  const where = place();
  const log = openLog(QUIET, where);
  log.error({ error: new Fault("NOT_FOUND", "no such thing") }, "x");
  assert.equal(JSON.parse(where.stderr.lines[0] ?? "").stack, undefined);
  await log.close();
});

test("texts in fields are cut at 1 KiB, at any depth", () => {
  const long = "ü".repeat(10_000);
  const line = safeLine({ user: long, labels: new Map([["user", [long]]]), short: "ü" });
  const cut = `${"ü".repeat(510)}…`;
  assert.deepEqual(line, { user: cut, labels: { user: [cut] }, short: "ü" });
});

test("a field cannot replace a reserved field of the line", async () => {
  const where = place();
  openLog(QUIET, where).info({ level: "x", message: "y", time: 0, service: "z" }, "real");
  const line = JSON.parse(where.stderr.lines[0] ?? "");
  assert.equal(line.message, "real");
  assert.equal(line.level, "info");
  assert.equal(line.message_, "y");
});

for (const [level, written] of [
  ["", ["info", "warn", "error"]],
  ["trace", ["trace", "debug", "info", "warn", "error"]],
  ["DEBUG", ["debug", "info", "warn", "error"]],
  ["info", ["info", "warn", "error"]],
  ["WARN", ["warn", "error"]],
  ["error", ["error"]],
  ["fatal", []],
  ["PANIC", []],
  ["disabled", []],
] as const) {
  test(`log.level ${level || '""'} writes ${written.join(" ") || "nothing"}`, async () => {
    const where = place();
    const log = openLog({ ...QUIET, level }, where);
    for (const method of ["trace", "debug", "info", "warn", "error"] as const)
      log[method]?.({}, "x");
    assert.deepEqual(
      where.stderr.lines.map((line) => JSON.parse(line).level),
      written,
    );
    await log.close();
  });
}

test("nothing is built for a line that is not written", () => {
  const log = openLog(QUIET, place());
  log.debug?.({ never: assert.fail() }, "x");
  log.child("a").trace?.({ never: assert.fail() }, "x");
});

test("the level of one component, or of all, changes until it is set back", () => {
  const where = place();
  const log = openLog(QUIET, where);
  const [a, b, etcd] = [log.child("a"), log.child("b"), log.child("etcd", "error")];
  assert.equal(log.child("a"), a);
  const { levels } = log;
  const start = { a: "info", b: "info", etcd: "error", process: "info" };
  const told = (): string => {
    where.stderr.lines.length = 0;
    for (const each of [log, a, b, etcd]) each.debug?.({}, "x");
    return where.stderr.lines.map((line) => JSON.parse(line).component ?? "process").join(" ");
  };
  assert.deepEqual([levels.current, told()], [start, ""]);
  levels.change("a", "DEBUG");
  assert.deepEqual([levels.current, told()], [{ ...start, a: "debug" }, "a"]);
  assert.equal(log.child("a").trace, undefined);
  levels.change(undefined, "trace");
  assert.equal(told(), "process a b etcd");
  assert.equal(typeof log.child("later").trace, "function");
  levels.change("b", "warn");
  assert.equal(told(), "process a etcd");
  levels.change("b", undefined);
  assert.equal(levels.current["b"], "trace");
  levels.change(undefined, undefined);
  assert.deepEqual([levels.current, told()], [{ ...start, later: "info" }, ""]);
  for (const [of, to] of [
    [undefined, "fatal"],
    ["a", undefined],
  ] as const)
    levels.change(of, to);
  const changes = where.stderr.lines.map((line) => JSON.parse(line));
  assert.deepEqual(
    changes.map(({ level, message, of, to }) => [level, message, of, to]),
    [
      ["warn", "the level of the log was changed", "all", "fatal"],
      ["warn", "the level of the log was changed", "a", "configured"],
    ],
    "changes are told at every level",
  );
});

test("a level or a component that does not exist is refused, and so is any where the log is disabled", () => {
  const log = openLog(QUIET, place());
  log.child("rules");
  const refuses = (change: () => void, code: string, message: string) =>
    assert.throws(change, { code, message });
  const wanted = "level: wanted one of trace debug info warn error fatal";
  refuses(() => log.levels.change("rules", "loud"), "INVALID_ARGUMENT", `${wanted}, got "loud"`);
  refuses(() => log.levels.change(undefined, ""), "INVALID_ARGUMENT", `${wanted}, got none`);
  const components = "wanted one of the components process rules, got rule";
  refuses(() => log.levels.change("rule", "debug"), "NOT_FOUND", components);
  const off = openLog({ ...QUIET, level: "disabled" }, place());
  off.child("etcd", "error");
  assert.deepEqual(off.levels.current, { etcd: "disabled", process: "disabled" });
  const none = "log.level is disabled: this process has no log";
  refuses(() => off.levels.change("etcd", "debug"), "FAILED_PRECONDITION", none);
});

test("writers: stderr without any, several at once, stdout, the default file, a path", async (context) => {
  const made = directory(context);
  const where = place({ directory: made });
  const path = join(made, "own", "a.log");
  const files = ["stdout", "default", path];
  const log = openLog({ ...QUIET, writers: files.map((file) => ({ ...WRITER, file })) }, where);
  log.info({}, "everywhere");
  await log.close();
  assert.equal(where.stderr.lines.length, 0);
  const texts = [
    where.stdout.lines.join(""),
    readFileSync(join(made, "sluice-agent", "sluice-agent.log"), "utf8"),
    readFileSync(path, "utf8"),
  ];
  for (const text of texts) assert.equal(JSON.parse(text).message, "everywhere");
});

test("pretty_console adds a readable writer on stderr", async () => {
  const where = place();
  const settings = { ...QUIET, pretty_console: true, writers: [{ ...WRITER, file: "stdout" }] };
  const log = openLog(settings, where);
  log.child("serve").info({ port: 1, peers: ["a"] }, "up");
  assert.equal(JSON.parse(where.stdout.lines[0] ?? "").message, "up");
  assert.equal(
    where.stderr.lines[0],
    '2026-01-02T03:04:05.678Z INFO  serve: up port=1 peers=["a"]\n',
  );
  await log.close();
});

for (const [format, terminal, text] of [
  ["auto", true, true],
  ["auto", false, false],
  ["json", true, false],
  ["text", false, true],
] as const) {
  test(`log.format ${format} ${terminal ? "on" : "off"} a terminal writes ${text ? "text" : "JSON"}`, async (context) => {
    const path = join(directory(context), "a.log");
    const where = place();
    const [stderr, stdout] = [where.stderr, where.stdout].map((sink) => ({ ...sink, terminal }));
    const writers = ["stderr", "stdout", path].map((file) => ({ ...WRITER, file }));
    const log = openLog({ ...QUIET, format, writers }, {
      ...where,
      stderr,
      stdout,
    } as never);
    log.info({ port: 1 }, "up");
    await log.close();
    const plain = "2026-01-02T03:04:05.678Z INFO  up port=1\n";
    for (const { lines } of [where.stderr, where.stdout]) {
      if (text) assert.deepEqual(lines, [plain]);
      else assert.equal(JSON.parse(lines.join("")).message, "up");
    }
    assert.equal(JSON.parse(readFileSync(path, "utf8")).message, "up", "files hold JSON");
  });
}

test("levels have colours on a terminal only, and only where they are wanted", async () => {
  const written = (terminal: boolean, colours: boolean) => {
    const where = place();
    const stderr = { ...where.stderr, terminal };
    openLog({ ...QUIET, format: "text" }, { ...where, stderr, colours }).warn({}, "x");
    return where.stderr.lines.join("");
  };
  assert.ok(written(true, true).endsWith("\u001b[33mWARN \u001b[0m x\n"));
  assert.ok(!written(true, false).includes("\u001b"));
  assert.ok(!written(false, true).includes("\u001b"));
});

test("reopen starts a new file where the old one was moved away; one that cannot be opened is logged", async (context) => {
  const made = directory(context);
  const path = join(made, "sub", "a.log");
  const log = openLog({ ...QUIET, writers: [{ ...WRITER, file: path }] }, place());
  const messages = (file: string) =>
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).message);
  log.info({}, "one");
  renameSync(path, join(made, "moved"));
  log.info({}, "two");
  log.reopen();
  log.info({}, "three");
  assert.deepEqual(messages(join(made, "moved")), ["one", "two"]);
  assert.deepEqual(messages(path), ["three"]);
  renameSync(join(made, "sub"), join(made, "away"));
  writeFileSync(join(made, "sub"), "a file in the way");
  log.reopen();
  assert.match(messages(join(made, "away", "a.log")).at(-1), /was not opened again/);
  await log.close();
  log.reopen();
});

test("pretty_console keeps a line one line", async () => {
  const where = place();
  const log = openLog({ ...QUIET, pretty_console: true }, where);
  log.info({ path: "/a\nforged" }, "x\u001b[31m\ny");
  assert.equal(where.stderr.lines.join("").split("\n").length, 2);
  assert.ok(!where.stderr.lines.join("").includes("\u001b"));
  await log.close();
});

test("a reader that stopped reading cannot delay the end of the process", async () => {
  const clock = fakeClock();
  const stderr: Sink = {
    writeNow: () => undefined,
    write: () => new Promise(() => undefined),
    close: async () => undefined,
  };
  const log = openLog({ ...QUIET, non_blocking: true }, { ...place(), clock, stderr });
  log.info({}, "x");
  const closed = log.close();
  assert.equal(clock.alarms, 1);
  clock.advance(2_000);
  await closed;
});

for (const non_blocking of [true, false]) {
  test(`a real pipe gets every line, non_blocking ${non_blocking}`, () => {
    const script = `
      import { openLog } from ${JSON.stringify(join(import.meta.dirname, "../../../src/telemetry/log/log.ts"))};
      const clock = { now: () => 0, wall: () => 0, alarm: () => () => undefined };
      const settings = { level: "info", non_blocking: ${non_blocking}, format: "auto", pretty_console: false,
  format: "auto", writers: [] };
      const log = openLog(settings, { service: "s", clock });
      for (let line = 0; line < 900; line++) log.info({ line, pad: "x".repeat(300) }, "x");
      await log.close();
      process.exit(0);
    `;
    const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      encoding: "utf8",
      maxBuffer: 2 ** 24,
    });
    const lines = ran.stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).line);
    assert.deepEqual(
      lines,
      Array.from({ length: 900 }, (_, line) => line),
    );
  });
}

test("the same target twice is refused", () => {
  const writers = [WRITER, WRITER];
  assert.throws(
    () => openLog({ ...QUIET, writers }, place()),
    /each target once, got stderr twice/,
  );
});

test("a file that cannot be written refuses the start and says which and why", (context) => {
  const made = directory(context);
  writeFileSync(join(made, "file"), "");
  const under = join(made, "file", "a.log");
  const open = () => openLog({ ...QUIET, writers: [{ ...WRITER, file: under }] }, place());
  assert.throws(open, (thrown: unknown) => {
    assert.ok(thrown instanceof Fault);
    assert.equal(thrown.code, "INVALID_ARGUMENT");
    assert.match(
      thrown.message,
      /wanted a file that can be written at .*a\.log, got E(NOTDIR|EXIST)/,
    );
    return true;
  });
  if (process.getuid?.() === 0) return;
  chmodSync(made, 0o500);
  assert.throws(
    () => openLog({ ...QUIET, writers: [{ ...WRITER, file: join(made, "b") }] }, place()),
    /EACCES/,
  );
});

test("an unknown level is refused", () => {
  assert.throws(() => openLog({ ...QUIET, level: "loud" }, place()), /log\.level: wanted/);
});

test("non_blocking: lines are taken at once and written later, all before close ends", async () => {
  const where = place();
  const log = openLog({ ...QUIET, non_blocking: true }, where);
  for (let line = 0; line < 500; line++) log.info({ line }, "x");
  assert.equal(where.stderr.lines.length, 0);
  await log.close();
  assert.deepEqual(
    where.stderr.lines.map((line) => JSON.parse(line).line),
    Array.from({ length: 500 }, (_, line) => line),
  );
  assert.equal(where.stderr.closed, 1);
  log.info({}, "after the end");
  assert.equal(where.stderr.lines.length, 500);
});

test("non_blocking: lines that do not fit are dropped, counted, and reported when there is room", async () => {
  const stuck = Promise.withResolvers<void>();
  const lines: string[] = [];
  const stderr: Sink = {
    writeNow: () => assert.fail("must not block"),
    write: async (more) => {
      await stuck.promise;
      lines.push(...more);
    },
    close: async () => undefined,
  };
  const log = openLog({ ...QUIET, non_blocking: true }, { ...place(), stderr });
  log.info({}, "first");
  await new Promise((resolve) => setImmediate(resolve));
  for (let line = 0; line < QUEUE_LINES + 25; line++) log.info({}, "x");
  assert.equal(log.dropped, 25);
  stuck.resolve();
  await log.close();
  assert.equal(lines.length, 1 + QUEUE_LINES);
});

test("non_blocking: lost lines are reported while the log is open", async () => {
  const gate = { open: false };
  const stuck = Promise.withResolvers<void>();
  const lines: string[] = [];
  const stderr: Sink = {
    writeNow: () => undefined,
    write: async (more) => {
      if (!gate.open) await stuck.promise;
      lines.push(...more);
    },
    close: async () => undefined,
  };
  const log = openLog({ ...QUIET, non_blocking: true }, { ...place(), stderr });
  log.info({}, "first");
  await new Promise((resolve) => setImmediate(resolve));
  for (let line = 0; line < QUEUE_LINES + 7; line++) log.info({}, "x");
  gate.open = true;
  stuck.resolve();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  const losses = lines
    .map((line) => JSON.parse(line))
    .filter(({ message }) => message === "log lines were lost");
  assert.deepEqual(
    losses.map(({ lines: count }) => count),
    [7],
  );
  await log.close();
});

test("a writer that fails loses lines, not the process, in both modes", async () => {
  const stderr: Sink = {
    writeNow: () => {
      throw new Error("ENOSPC");
    },
    write: async () => {
      throw new Error("ENOSPC");
    },
    close: async () => undefined,
  };
  for (const non_blocking of [true, false]) {
    const log = openLog({ ...QUIET, non_blocking }, { ...place(), stderr });
    log.info({}, "x");
    log.info({}, "y");
    await log.close();
    assert.equal(log.dropped, 2);
  }
});

const hidden = fc.stringMatching(/^[a-zA-Z0-9]{12,20}$/).map((core) => `zq${core}`);
const name = fc.constantFrom(
  "authorization",
  "Authorization",
  "PROXY-AUTHORIZATION",
  "cookie",
  "Set-Cookie",
  "x-api-key",
  "X_Api_Key",
  "api_key",
  "password",
);
const wrapped = fc.constantFrom<(name: string, secret: string) => Record<string, unknown>>(
  (key, secret) => ({ [key]: secret }),
  (key, secret) => ({ [key]: [secret] }),
  (key, secret) => ({ request: { headers: { [key]: secret } } }),
  (key, secret) => ({ headers: ["accept", "*/*", key, secret] }),
  (key, secret) => ({
    headers: [
      ["accept", "*/*"],
      [key, secret],
    ],
  }),
  (key, secret) => ({ headers: new Map([[key, secret]]) }),
  (key, secret) => ({ request: { rawHeaders: [key, secret] } }),
  (key, secret) => ({ fields: [[key, secret]] }),
  (key, secret) => ({ args: [key.toLowerCase(), secret] }),
  (_, secret) => ({ header: `Bearer ${secret}` }),
  (_, secret) => ({ error: new Error(`asked with basic ${secret}`) }),
  (_, secret) => ({ url: `http://user:${secret}@host/` }),
  (_, secret) => ({ a: { b: { c: { d: { e: { f: { g: { h: secret } } } } } } } }),
  (_, secret) => ({ body: Buffer.from(secret) }),
);

test("secrets are not written, however they are wrapped", async () => {
  const where = place();
  const log = openLog(
    { ...QUIET, pretty_console: true, writers: [{ ...WRITER, file: "stdout" }] },
    where,
  );
  fc.assert(
    fc.property(name, hidden, wrapped, (key, secret, wrap) => {
      log.info(wrap(key, secret), `call with Bearer ${secret}`);
      const written = `${where.stdout.lines.pop()} ${where.stderr.lines.pop()}`;
      assert.ok(written.includes("call with"));
      assert.ok(!written.includes(secret), written);
    }),
  );
  await log.close();
});

test("a list of service names is written whole", () => {
  const where = place();
  const grpc = ["Authorization", "FlowControlService", "Secret", "Health"];
  openLog(QUIET, where).warn({ grpc }, "x");
  assert.deepEqual(JSON.parse(where.stderr.lines[0] ?? "").grpc, grpc);
});

test("fields that refer to themselves are cut, not followed", () => {
  const where = place();
  const loop: Record<string, unknown> = { big: 1n };
  loop["self"] = loop;
  openLog(QUIET, where).info({ loop }, "x");
  assert.equal(JSON.parse(where.stderr.lines[0] ?? "").message, "x");
});
