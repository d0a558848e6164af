// Large documents are compiled in a child process, whose failure affects nothing else.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";
import { finish } from "#base/async/steps.ts";
import type { Fault } from "#base/fault.ts";
import { compileText } from "#controller/compiling/compile-text.ts";
import { Compiler, type CompilerOptions } from "#controller/compiling/compiler.ts";
import { Deduplicator } from "#controller/compiling/deduplicator.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { until } from "../../kit/until.ts";
import { counting, fault, variable } from "../kit.ts";

/** A rate limiter after this many variables of some 100 bytes each. */
export function large(components: number): string {
  const extra = Array.from(
    { length: components },
    (_, at) =>
      `    - variable: { constant_output: { value: ${at} }, out_ports: { output: { signal_name: X${at} } } }\n`,
  );
  return counting({ extra: extra.join("") });
}

function script(t: TestContext, text: string): URL {
  return pathToFileURL(join(folderOf(t, { "compiler.mjs": text }), "compiler.mjs"));
}

/** Replies with the source of the request, the id of its process, and the number of requests so far. */
const ECHO = `
let asked = 0;
process.on("message", ({ texts: [{ source }] }) => {
  if (source === "dies") process.exit(1);
  if (source === "killed") process.kill(process.pid, "SIGKILL");
  if (source === "throws") throw new Error("out of the blue");
  asked += 1;
  if (source !== "sleeps") process.send({ sets: [{ source, pid: process.pid, asked }] });
});
`;

interface Echo {
  readonly source: string;
  readonly pid: number;
  readonly asked: number;
}

function made(t: TestContext, { child, heapMb }: { child?: string; heapMb?: number } = {}) {
  const clock = fakeClock();
  const options: Partial<CompilerOptions> = {
    ...(child !== undefined && { entry: script(t, child) }),
    ...(heapMb !== undefined && { heapMb }),
  };
  const compiler = new Compiler({ settings: { queries: "own" }, clock, ...options });
  t.after(() => compiler.close());
  const echo = async (source: string) => {
    const [set] = await compiler.compile([{ source, defaultName: "x", text: " ".repeat(9_000) }]);
    return set as unknown as Echo;
  };
  return { clock, compiler, echo };
}

function exhausted(words: RegExp) {
  return fault("RESOURCE_EXHAUSTED", words);
}

test("the child process returns the same set as compiling here, faults and warnings included", async (t) => {
  const { compiler } = made(t);
  const texts = [
    { source: "a", defaultName: "c", text: large(200) },
    { source: "b", defaultName: "v", text: variable() },
    { source: "c", defaultName: "w", text: "circuit: 5\n" },
  ];
  const there = await compiler.compile(texts);
  assert.deepEqual(
    there,
    texts.map((text) => finish(compileText(text, { queries: "own" }))),
  );
  assert.deepEqual(
    there.map(({ policies, findings }) => [policies.length, findings.length]),
    [
      [1, 0],
      [1, 0],
      [0, 1],
    ],
  );
});

test("this thread is not blocked while a large document is compiled", async (t) => {
  const { compiler } = made(t);
  const text = large(1_500);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const [set] = await compiler.compile([{ source: "a", defaultName: "c", text }]);
  clearInterval(timer);
  assert.equal(set?.policies.length, 1);
  // A thread that compiles has one turn at most.
  assert.ok(turns >= 5, `${turns} turns of the event loop`);
});

test("small documents are compiled here and do not wait for large ones", async (t) => {
  const { compiler, echo } = made(t, { child: ECHO });
  const waits = echo("sleeps");
  waits.catch(() => undefined);
  const [set] = await compiler.compile([{ source: "a", defaultName: "v", text: variable() }]);
  assert.equal(set?.policies[0]?.name, "v");
});

test("one process compiles one document at a time, in order; it ends when idle and is started again", async (t) => {
  const { clock, echo } = made(t, { child: ECHO });
  const [one, two] = await Promise.all([echo("1"), echo("2")]);
  assert.deepEqual([one.source, one.asked, two.source, two.asked], ["1", 1, "2", 2]);
  assert.equal(two.pid, one.pid);
  clock.advance(9_000);
  assert.equal((await echo("3")).pid, one.pid);
  clock.advance(10_000);
  assert.equal(clock.alarms, 0);
  const next = await echo("4");
  assert.equal(next.asked, 1);
  assert.notEqual(next.pid, one.pid);
});

test("a process that dies, throws or takes too long fails only its document, by name", async (t) => {
  const { clock, echo } = made(t, { child: ECHO });
  const ended = (source: string, how: string) =>
    fault("UNAVAILABLE", new RegExp(`^${source}: the compiler process ended \\(${how}\\)$`));
  const dies = assert.rejects(echo("dies"), ended("dies", "1"));
  const throws = echo("throws").then(
    () => assert.fail("compiled"),
    (thrown: Fault) => thrown,
  );
  const killed = assert.rejects(echo("killed"), ended("killed", "SIGKILL"));
  const last = echo("well");
  await Promise.all([dies, killed]);
  const thrown = await throws;
  assert.ok(ended("throws", "1")(thrown));
  const { message } = thrown.cause as Error;
  assert.equal(message, "Error: out of the blue", "the line of stderr that names the error");
  assert.equal((await last).asked, 1);
  const sleeps = assert.rejects(echo("sleeps"), exhausted(/^sleeps: wanted .* within 120 s/));
  clock.advance(120_000);
  await sleeps;
  assert.equal((await echo("well")).asked, 1);
});

test("exceeding the memory limit ends the child process and not this one", async (t) => {
  const child = `
process.on("message", () => {
  const all = [];
  for (;;) all.push(new Array(10_000).fill(all.length));
});
`;
  const { echo } = made(t, { child, heapMb: 16 });
  const thrown = await echo("greedy").then(
    () => assert.fail("compiled"),
    (fault: Fault) => fault,
  );
  assert.ok(exhausted(/^greedy: wanted .* 16 MiB/)(thrown));
  assert.match((thrown.cause as Error).message, /^FATAL ERROR: .*heap out of memory/);
});

test("closing fails running and waiting documents and leaves nothing open", async (t) => {
  const { clock, compiler, echo } = made(t, { child: ECHO });
  await echo("1");
  const codes = Promise.all(
    ["sleeps", "waits"].map((source) => echo(source).catch(({ code }: Fault) => code)),
  );
  await compiler.close();
  assert.deepEqual(await codes, ["UNAVAILABLE", "UNAVAILABLE"]);
  await assert.rejects(echo("late"), { code: "UNAVAILABLE" });
  assert.equal(clock.alarms, 0);
  const isLeft = () => process.getActiveResourcesInfo().includes("ProcessWrap");
  await until("no process is left", () => !isLeft());
});

test("equal parts of what was compiled are shared, and the data is the same", () => {
  const of = (n: number) => ({
    a: [
      { x: n, y: "t" },
      { x: 1, y: "t" },
    ],
    z: -0,
    none: undefined,
  });
  const value = [
    of(1),
    of(1),
    of(2),
    { a: "1", b: 1 },
    { a: 1, b: "1" },
    { z: 0 },
    new Map([[1, 2]]),
  ];
  const shared = new Deduplicator().deduplicate(value);
  assert.deepEqual(shared, value);
  assert.equal(shared[0], shared[1]);
  const [first, , third] = shared as readonly ReturnType<typeof of>[];
  assert.notEqual(first, third);
  assert.equal(first?.a[1], third?.a[1]);
  assert.ok(Object.is(first?.z, -0));
});
