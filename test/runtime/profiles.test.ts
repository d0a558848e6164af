import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { type HttpReply, isAdministration } from "#base/handler.ts";
import { realClock } from "#runtime/life/clock.ts";
import { profiles } from "#runtime/profiling/routes.ts";
import { callRoute } from "../kit/clients/route.ts";
import { type FakeClock, fakeClock } from "../kit/clock.ts";

const SETTINGS = { cpu_profiler: false, profiles_path: "default" };
const directory = await mkdtemp(join(tmpdir(), "profiles-"));
after(() => rm(directory, { recursive: true }));

function stage(changed: Partial<typeof SETTINGS> = {}, clock: FakeClock = fakeClock()) {
  const around = { service: "sluice-agent", argv: ["node", "sluice", "agent"], clock };
  const made = profiles({ ...SETTINGS, ...changed }, around);
  const gone = new AbortController();
  const ask = async (name: string, query = ""): Promise<HttpReply> => {
    const route = made.routes.find(({ path }) => path === `/debug/pprof${name}`);
    assert.ok(route, name);
    return callRoute(route, { query, signal: gone.signal });
  };
  return { clock, gone, ask, ...made };
}

/** Spends processor time where a profile must find it. */
function burnTheMidnightOil(ms: number): number {
  let sum = 0;
  for (const until = performance.now() + ms; performance.now() < until; )
    for (let at = 0; at < 10_000; at++) sum += Math.sqrt(at);
  return sum;
}

/** Waits, with turns of the event loop, until the profiler waits on its clock. */
async function whenArmed(clock: FakeClock): Promise<void> {
  while (clock.alarms === 0) await new Promise((next) => setImmediate(next));
}

async function pprof(body: HttpReply["body"]): Promise<string> {
  const file = join(directory, `${crypto.randomUUID()}.pb.gz`);
  await writeFile(file, body);
  const env = { ...process.env, PPROF_TMPDIR: directory };
  const args = ["tool", "pprof", "-lines", "-top", file];
  return (await promisify(execFile)("go", args, { env })).stdout;
}

test("a processor profile opens in pprof and names the busy function", async () => {
  const { clock, ask } = stage();
  const taken = ask("/profile", "seconds=5");
  await whenArmed(clock);
  burnTheMidnightOil(300);
  clock.advance(5_000);
  const { body, headers } = await taken;
  assert.equal(headers["content-type"], "application/octet-stream");
  const top = await pprof(body);
  assert.match(top, /Type: cpu/);
  assert.match(top, /burnTheMidnightOil .*profiles\.test\.ts/);
  assert.doesNotMatch(top, /\(idle\)/);
});

test("the current use of memory, and allocations during a time", async () => {
  const { clock, ask } = stage();
  const now = await pprof((await ask("/heap")).body);
  assert.match(now, /heap: old_space/);
  assert.match(now, /array buffers/);
  const taken = ask("/heap", "seconds=2");
  await whenArmed(clock);
  const kept = Array.from({ length: 50_000 }, (_, at) => ({ at: `${at}` }));
  clock.advance(2_000);
  const top = await pprof((await taken).body);
  assert.match(top, /Type: inuse_space/);
  assert.match(top, /profiles\.test\.ts/);
  assert.equal(kept.length, 50_000);
});

/** Every profile, asked for while another is taken, is refused. */
async function refuseAll(ask: (name: string, query?: string) => Promise<HttpReply>) {
  for (const [other, query] of [
    ["/profile", "seconds=1"],
    ["/heap", "seconds=1"],
    ["/heap", ""],
  ] as const) {
    const why = { code: "RESOURCE_EXHAUSTED", http: 409, message: /one profile at a time/ };
    await assert.rejects(ask(other, query), why, `${other}?${query}`);
  }
}

test("one profile at a time", async () => {
  const { clock, ask } = stage();
  for (const first of ["/profile", "/heap"]) {
    const taken = ask(first, "seconds=1");
    await refuseAll(ask);
    await whenArmed(clock);
    await refuseAll(ask);
    clock.advance(1_000);
    await taken;
  }
  const now = ask("/heap");
  await refuseAll(ask);
  await now;
  await ask("/heap");
});

test("a profile ends when its caller leaves, and the next one may start", async () => {
  const { clock, gone, ask } = stage();
  const taken = ask("/profile");
  await whenArmed(clock);
  gone.abort();
  await taken;
  assert.equal(clock.alarms, 0);
  await ask("/profile");
});

test("seconds are whole and within bounds", async () => {
  const { ask } = stage();
  for (const bad of ["0", "61", "-1", "1.5", "", "1e9", "99999", "x"])
    await assert.rejects(ask("/profile", `seconds=${bad}`), { code: "INVALID_ARGUMENT" }, bad);
});

test("the plain routes and the index", async () => {
  const { ask, routes } = stage();
  assert.equal((await ask("/cmdline")).body, "node\0sluice\0agent");
  assert.equal((await ask("/symbol")).body, "num_symbols: 0\n");
  assert.match(String((await ask("/goroutine")).body), /^\d+ \w+$/m);
  const index = String((await ask("")).body);
  for (const { path } of routes) assert.ok(path === "/debug/pprof" || index.includes(path), path);
  for (const route of routes) assert.equal(isAdministration(route), true, route.path);
});

test("the profile of a whole run is written at the stop and rotates; meanwhile the routes are busy", async () => {
  const path = join(directory, "deep", "run");
  for (let turn = 0; turn < 8; turn++) {
    const clock = fakeClock(0, 1_700_000_000_000 + turn * 1_000);
    const { ask, start } = stage({ cpu_profiler: true, profiles_path: path }, clock);
    const stop = await start();
    await refuseAll(ask);
    if (turn === 7) {
      burnTheMidnightOil(150);
      clock.advance(60_000);
      burnTheMidnightOil(150);
    }
    await stop();
    assert.equal(clock.alarms, 0);
  }
  const files = (await readdir(path)).sort();
  assert.equal(files.length, 6);
  assert.equal(files.at(-1), "cpu.prof");
  const top = await pprof(await readFile(join(path, "cpu.prof")));
  assert.match(top, /burnTheMidnightOil/);
});

test("a profile of the whole run that could not be written prevents the start", async () => {
  await writeFile(join(directory, "file"), "");
  const path = join(directory, "file", "x");
  const { start } = stage({ cpu_profiler: true, profiles_path: path });
  await assert.rejects(start(), ({ code, message, cause }: Error & { code?: string }) => {
    assert.deepEqual([code, cause], ["INVALID_ARGUMENT", undefined], "the message says it all");
    assert.ok(message.startsWith(`profilers.profiles_path: ${path}: wanted`), message);
    assert.match(message, /, got E[A-Z]+: /);
    return true;
  });
  const quiet = stage();
  await (await quiet.start())();
});

test("with the real clock, a profile takes the requested number of seconds", async () => {
  const clock = realClock();
  const alive = setInterval(() => undefined, 50);
  const made = profiles(SETTINGS, { service: "x", argv: [], clock });
  const route = made.routes.find(({ path }) => path === "/debug/pprof/profile");
  const begun = clock.now();
  assert.ok(route);
  await callRoute(route, { query: "seconds=1" });
  clearInterval(alive);
  assert.ok(clock.now() - begun >= 999);
});
