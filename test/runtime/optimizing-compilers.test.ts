// V8's optimizing compilers are off while a process starts, and on when it serves.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { execPath } from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const MODULE = new URL("../../src/runtime/life/v8.ts", import.meta.url).href;
const SLUICE = new URL("../../src/cli/sluice.js", import.meta.url).pathname;

/** Prints, when the process ends, which compilers were on. */
const PROBE = `
  import { cachedDataVersionTag, setFlagsFromString } from "node:v8";
  const tag = cachedDataVersionTag();
  process.on("exit", () => {
    const on = ["maglev", "turbofan"].filter((name) => {
      // The tag depends on the flags: it stays the same when what is on is switched on.
      const before = cachedDataVersionTag();
      setFlagsFromString("--" + name);
      return cachedDataVersionTag() === before;
    });
    if (cachedDataVersionTag() !== tag) on.push("another flag");
    process.stderr.write(JSON.stringify(on));
  });
`;

for (const [command, wanted] of [
  ["agent", []],
  ["controller", []],
  ["standalone", []],
  ["check", ["maglev", "turbofan"]],
] as const) {
  test(`the command ${command} begins with these compilers: ${wanted.join(", ") || "none"}`, async () => {
    const probe = `data:text/javascript,${encodeURIComponent(PROBE)}`;
    const { stderr } = await run(execPath, ["--import", probe, SLUICE, command, "--help"]);
    assert.deepEqual(JSON.parse(stderr), wanted);
  });
}

const SCRIPT = `
  import { setFlagsFromString } from "node:v8";
  import { useOptimizingCompilers } from ${JSON.stringify(MODULE)};
  const hot = [(n) => n * 2 + 1, (n) => n * 3 + 1];
  /** Compilation happens in another thread, so the function is called until it is compiled, or long enough. */
  async function compiled(f) {
    const by = new Set();
    for (let turn = 0; turn < 2_000 && by.size < 2; turn++) {
      for (let at = 0; at < 1_000; at++) f(at);
      if (%ActiveTierIsMaglev(f)) by.add("maglev");
      if (%ActiveTierIsTurbofan(f)) by.add("turbofan");
      await new Promise(setImmediate);
    }
    return [...by];
  }
  for (const flag of ["--no-maglev", "--no-turbofan"]) setFlagsFromString(flag);
  const before = await compiled(hot[0]);
  useOptimizingCompilers();
  console.log(JSON.stringify([before, await compiled(hot[1])]));
`;

test("hot functions are compiled once the process serves", async () => {
  const flags = ["--allow-natives-syntax", "--input-type=module", "-e", SCRIPT];
  const { stdout } = await run(execPath, flags);
  const [before, after] = JSON.parse(stdout);
  assert.deepEqual([before, after.includes("turbofan")], [[], true]);
});
