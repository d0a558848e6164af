// The cost of an edit of one file among many, that a change of many policies leaves room for checks, and that files
// which are away for a moment keep their policies.

import assert from "node:assert/strict";
import { renameSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import { sha256 } from "#controller/digest.ts";
import { DirectorySource } from "#controller/policies/directory-source.ts";
import { compileFiles, readPolicyFiles } from "#controller/policies/policy-files.ts";
import { compileSet, type PolicyText } from "#policy/set.ts";
import { SLICE_PIECES, Slices } from "#runtime/life/slices.ts";
import { fakeClock } from "../../kit/clock.ts";
import { folderOf } from "../../kit/folder.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { bench, counting, decisionsOf, variable } from "../kit.ts";

/** A time that all file systems tell apart from that of a change now. */
const LONG_AGO = new Date("2020-01-01T00:00:00Z");

/** Changes the time of a file's content. That of its last change is always now, so readings are told that it is later. */
const LATER_MS = 3_600_000;

async function compiling(t: TestContext, files: Readonly<Record<string, string>>) {
  const directory = folderOf(t, files);
  for (const file of Object.keys(files)) utimesSync(join(directory, file), LONG_AGO, LONG_AGO);
  const compiled: string[] = [];
  const compile = async (texts: readonly PolicyText[]) => {
    compiled.push(...texts.map(({ defaultName }) => defaultName));
    return texts.map((text) => compileSet([text], { digest: sha256, queries: "own" }));
  };
  const read = (known: Awaited<ReturnType<typeof compileFiles>>) =>
    readPolicyFiles([directory], known, Date.now() + LATER_MS);
  const known = await compileFiles(await read(new Map()), new Map(), () => true, compile);
  return { directory, compiled, compile, read, known };
}

test("of many files, only the one that was edited is read and compiled", async (t) => {
  const names = Array.from({ length: 40 }, (_, at) => `p${at}`);
  const files = Object.fromEntries(names.map((name, at) => [`${name}.yaml`, variable(at)]));
  const { directory, compiled, compile, read, known } = await compiling(t, files);
  assert.deepEqual(new Set(compiled), new Set(names));
  utimesSync(join(directory, "p7.yaml"), new Date(), new Date());
  const reading = await read(known);
  const wasRead = reading.sorted.policies.filter(({ text }) => text !== undefined);
  assert.deepEqual(
    wasRead.map(({ defaultName }) => defaultName),
    ["p7"],
  );
  compiled.length = 0;
  const same = await compileFiles(reading, known, () => true, compile);
  assert.deepEqual(compiled, [], "the text is the same");
  const edited = { ...wasRead[0], text: variable(99) } as PolicyText & { facts: undefined };
  const policies = reading.sorted.policies.map((file) => (file.text === undefined ? file : edited));
  const digests = new Map(reading.digests).set(edited.source, sha256(edited.text));
  await compileFiles(
    { ...reading, digests, sorted: { ...reading.sorted, policies } },
    same,
    () => true,
    compile,
  );
  assert.deepEqual(compiled, ["p7"]);
});

test("a file that was changed a moment ago is read again, because a second change may leave no trace", async (t) => {
  const { directory, known } = await compiling(t, { "a.yaml": variable() });
  const { sorted } = await readPolicyFiles([directory], known, Date.now());
  assert.notEqual(sorted.policies[0]?.text, undefined);
});

test("a slice ends after some pieces of work, or some time", async () => {
  const clock = fakeClock();
  const slices = new Slices(clock);
  let turns = 0;
  let counting = true;
  const count = () => {
    turns += 1;
    if (counting) setImmediate(count);
  };
  setImmediate(count);
  for (let piece = 0; piece < 10 * SLICE_PIECES; piece++) await slices.pause();
  assert.ok(turns >= 9, `${turns} turns`);
  const before = turns;
  for (let piece = 0; piece < 10; piece++) {
    clock.advance(5);
    await slices.pause();
  }
  counting = false;
  assert.ok(turns - before >= 9, `${turns - before} turns`);
});

test("a change of many policies takes many turns and is one write, first decisions included", async (t) => {
  // As many as are compiled in this process.
  const names = Array.from({ length: 100 }, (_, at) => `p${at}`);
  const files = (fill: number) =>
    names.map((name) => [`${name}.yaml`, counting({ name, fill })] as const);
  const { write, when, commits, controller } = await bench(t, {
    files: Object.fromEntries(files(1)),
  });
  const versions = () => names.map((name) => JSON.stringify(controller.policies.get(name).policy));
  const before = versions();
  const changedNow = () => versions().filter((version, at) => version !== before[at]).length;
  const commitsBefore = commits.length;
  let turns = 0;
  const timer = setInterval(() => void 0, 1);
  t.after(() => clearInterval(timer));
  /** The number of policies that ran in their new version, turn by turn. */
  const started: number[] = [];
  const count = () => {
    turns += 1;
    const now = changedNow();
    started.push(now);
    if (now < 100) setImmediate(count);
  };
  setImmediate(count);
  for (const [file, text] of files(2)) write(file, text);
  await when("all are in force", () =>
    commits.slice(commitsBefore).some((each) => changedIn(each) === 100),
  );
  assert.ok(turns > 100 / SLICE_PIECES, `${turns} turns`);
  // A slice also ends when its time is up, so a busy machine may see smaller steps.
  for (const [turn, now] of started.entries())
    assert.ok(now - (started[turn - 1] ?? 0) <= SLICE_PIECES, started.join(" "));
  assert.ok(new Set(started.filter((now) => now > 0 && now < 100)).size >= 3);
  for (const commit of commits.slice(commitsBefore)) {
    const configs = changedIn(commit);
    assert.ok(configs === 0 || configs === 100, `a commit with ${configs} configurations`);
    const decisions = [...commit.keys()].filter((key) => key.startsWith("/decisions/")).length;
    if (configs > 0) assert.equal(decisions, 100);
  }
});

function changedIn(commit: ReadonlyMap<string, unknown>): number {
  return [...commit.keys()].filter((key) => key.startsWith("/config/rate_limiter/")).length;
}

test("a file that is away for a moment keeps its policy and its state; after five seconds it is gone", async (t) => {
  const made = await bench(t, { files: { "a.yaml": variable(), "c.yaml": counting() } });
  const { directory, clock, controller, logged, when, write, turn } = made;
  const away = join(directory, "..", "c.yaml");
  /** The number of ticks since the policy was loaded, which its integrator counts. */
  const counted = async () => {
    const decisions = [...(await decisionsOf(made))];
    const [, decision] = decisions.find(([key]) => key.startsWith("c ")) ?? [];
    return decision?.rateLimiterDecision?.bucketCapacity ?? 0;
  };
  const status = () => controller.policies.get("c").status;
  const pass = async (checks: number) => {
    for (let check = 0; check < checks; check++) {
      clock.advance(500);
      await turn();
    }
  };
  await pass(20);
  const before = await counted();
  assert.ok(before >= 10, `${before}`);
  renameSync(join(directory, "c.yaml"), away);
  write("a.yaml", variable(3));
  await when("another edit is in force", () => logged.some((line) => /changed: a /.test(line)));
  assert.equal(status(), "VALID");
  assert.ok((await counted()) >= before);
  renameSync(away, join(directory, "c.yaml"));
  // Reading files takes real time, in which the clock must not pass the five seconds.
  await controller.reload();
  const told = () => logged.filter((line) => line.includes("is gone or empty"));
  const stays = "its policies stay in force for 5 s, in case that it is being replaced";
  assert.deepEqual(told(), [`${join(directory, "c.yaml")} is gone or empty: ${stays}`]);
  await pass(20);
  assert.ok((await counted()) >= before + 10, `${await counted()} after ${before}`);
  assert.ok(!logged.some((line) => /removed|new: c/.test(line.replace(/^.*; new: a .*$/, ""))));
  renameSync(join(directory, "c.yaml"), away);
  await when("it is removed", () => !controller.policies.list().has("c"));
  await when("that is logged", () => logged.some((line) => /removed: c /.test(line)));
  assert.equal(told().length, 2, "once for each time that it was away");
});

test("the log has the last words of a compiler process that died", async (t) => {
  const cause = new Error("FATAL ERROR: JavaScript heap out of memory");
  const dies = new Fault("RESOURCE_EXHAUSTED", "a.yaml: wanted a smaller document", { cause });
  const directory = folderOf(t, {});
  const log = memoryLog();
  const source = new DirectorySource({
    directories: [directory],
    clock: fakeClock(),
    active: { update: async () => undefined } as never,
    hasPolicy: () => false,
    compile: () => Promise.reject(dies),
    log,
    status: { ok: () => undefined, fail: () => undefined },
    counts: { setDocuments: () => undefined, reloaded: () => undefined },
  });
  t.after(() => source.close());
  await source.reload();
  const [line] = log.lines;
  assert.equal(line?.message, dies.message);
  assert.equal(line?.fields["error"], dies);
});

test("a file that is empty, because it is being written, keeps its policy; after five seconds it is a fault", async (t) => {
  const made = await bench(t, { files: { "a.yaml": variable(), "v.yaml": variable() } });
  const { logged, when, write, controller, reloads } = made;
  write("v.yaml", "");
  write("a.yaml", variable(3));
  await when("another edit is in force", () => logged.some((line) => /changed: a /.test(line)));
  assert.equal(reloads.failure, 0);
  assert.equal(controller.policies.get("v").status, "VALID");
  await when("it is a fault", () => reloads.failure > 0);
  assert.match(logged.join("\n"), /v\.yaml:1:1: wanted a policy, got no document/);
  assert.equal(controller.policies.get("v").status, "OUTDATED");
});

test("a policy that moved to another file does not wait for the old one to be gone", async (t) => {
  const named = `apiVersion: fluxninja.com/v1alpha1
kind: Policy
metadata: { name: v }
spec:
  circuit: { components: [] }
`;
  const VARIABLE =
    "{ variable: { constant_output: { value: 1 }, out_ports: { output: { signal_name: A } } } }";
  const moved = await bench(t, { files: { "old.yaml": named } });
  const { logged, when, clock, controller, write, remove } = moved;
  const before = controller.policies.get("v").policy;
  remove("old.yaml");
  write("new.yaml", named.replace("[]", `[${VARIABLE}]`));
  const started = clock.now();
  await when("the version of the new file is in force", () => {
    const now = controller.policies.get("v").policy;
    return JSON.stringify(now) !== JSON.stringify(before);
  });
  assert.ok(clock.now() - started < 5_000, "the old file was waited for");
  assert.ok(!logged.some((line) => line.includes("unique policy name")), logged.join("\n"));
});

test("several directories are one set, and a reload on request needs no check of the directory", async (t) => {
  const [first, second] = [
    folderOf(t, { "a.yaml": variable() }),
    folderOf(t, { "b.yaml": counting() }),
  ];
  const read = await readPolicyFiles([first, second], new Map(), Date.now());
  assert.deepEqual(
    read.sorted.policies.map(({ defaultName }) => defaultName),
    ["a", "b"],
  );
  const { write, controller, logged } = await bench(t, { files: { "a.yaml": variable() } });
  write("v.yaml", variable());
  await controller.reload();
  assert.equal(controller.policies.get("v").status, "VALID");
  assert.ok(
    logged.some((line) => /; new: v /.test(line)),
    logged.join("\n"),
  );
});
