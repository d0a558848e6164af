// V8's middle compiler is off during a start and on afterwards: without the top compiler, a hot function shows it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { execPath } from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const MODULE = new URL("../../src/host/life/middle-compiler.ts", import.meta.url).href;

const SCRIPT = `
  import { startWithoutMiddleCompiler, useMiddleCompiler } from ${JSON.stringify(MODULE)};
  const hot = [(n) => n * 2 + 1, (n) => n * 3 + 1];
  /** Compilation happens in another thread, so the function is called until it is compiled, or long enough. */
  async function compiled(f) {
    for (let turn = 0; turn < 2_000; turn++) {
      for (let at = 0; at < 1_000; at++) f(at);
      if (%ActiveTierIsMaglev(f)) return true;
      await new Promise(setImmediate);
    }
    return false;
  }
  startWithoutMiddleCompiler();
  const before = await compiled(hot[0]);
  useMiddleCompiler();
  console.log(JSON.stringify([before, await compiled(hot[1])]));
`;

test("functions are compiled by the middle compiler only once the process serves", async () => {
  const flags = ["--allow-natives-syntax", "--no-turbofan", "--input-type=module", "-e", SCRIPT];
  const { stdout } = await promisify(execFile)(execPath, flags);
  assert.deepEqual(JSON.parse(stdout), [false, true]);
});
