// `run` in a separate process, with the real operating system.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { folderOf } from "../kit/folder.ts";

const SCRIPT = (main: string) => `
  import { realClock } from "#runtime/life/clock.ts";
  import { run } from "#runtime/life/run.ts";
  import { operatingSystem } from "#runtime/life/operating-system.ts";
  await run(async (context) => { ${main} }, operatingSystem(realClock()));
`;

async function lived(main: string, whenUp?: NodeJS.Signals) {
  const args = ["--input-type=module-typescript", "--eval", SCRIPT(main)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  // A child that hangs would keep the test from failing.
  const impatience = setTimeout(() => child.kill("SIGKILL"), 60_000);
  if (whenUp !== undefined) child.stdout.once("data", () => child.kill(whenUp));
  const [code, signal] = await once(child, "close");
  clearTimeout(impatience);
  return { code, signal, text };
}

test("stays alive without an open handle, drains on SIGTERM, exits with 0", async () => {
  const main = `context.scope.add("x", () => new Promise((end) => context.clock.alarm(20, end)));
    console.log("up");`;
  const { code, text } = await lived(main, "SIGTERM");
  assert.equal(code, 0, text);
  assert.match(text, /draining\n.*drained/);
});

test("a failed start never exits with 0", async () => {
  assert.equal((await lived(`throw new Error("broken");`)).code, 70);
});

test("an unhandled rejection ends the process with 70 and shows the stack", async () => {
  const { code, text } = await lived(`Promise.reject(new Error("lost"));`);
  assert.equal(code, 70);
  assert.match(text, /unhandled rejection\nError: lost\n\s+at/);
});

/** Occupies a thread for ever: nobody writes to the pipe. */
function hanging(t: TestContext): string {
  const pipe = join(folderOf(t, {}), "pipe");
  execFileSync("mkfifo", [pipe]);
  return `void (await import("node:fs/promises")).readFile(${JSON.stringify(pipe)});`;
}

test("a failed start ends with its code even while a thread hangs", async (t) => {
  const main = `${hanging(t)} throw new Error("broken");`;
  const { code, text } = await lived(main);
  assert.equal(code, 70, text);
  assert.match(text, /cannot start\nError: broken/);
});

test("a drain that was cut ends with the code of its signal even while a thread hangs", async (t) => {
  const main = `${hanging(t)} context.scope.add("deaf", () => {
      process.kill(process.pid, "SIGTERM");
      return new Promise(() => undefined);
    });
    console.log("up");`;
  const { code, text } = await lived(main, "SIGTERM");
  assert.equal(code, 143, text);
  assert.match(text, /cutting what is left/);
});

test("rarely used modules are not loaded before they are needed", async () => {
  const main = `const { Metrics } = await import("#telemetry/metrics/metrics.ts");
    const { profiles } = await import("#runtime/profiling/routes.ts");
    const settings = { cpu_profiler: false, profiles_path: "default" };
    const made = profiles(settings, { service: "x", argv: [], clock: context.clock });
    const { createRequire } = await import("node:module");
    const loaded = () => [
      ...Object.keys(createRequire(process.cwd() + "/x").cache), ...process.moduleLoadList,
    ].filter((name) => /prom-client|NativeModule inspector/.test(name)).length;
    if (loaded() > 0) throw new Error("loaded at the start");
    await new Metrics({}).scrape();
    if (loaded() === 0) throw new Error("this test sees nothing");
    return made.routes.length > 0 ? 0 : 1;`;
  const { code, text } = await lived(main);
  assert.equal(code, 0, text);
});
