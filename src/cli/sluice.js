#!/usr/bin/env node
// The entry of the command `sluice`. It is plain JavaScript for two reasons: a Node too old for TypeScript can run it
// and hand over to the one of the checkout, and the cache of compiled modules is on before the first TypeScript file is read.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import module from "node:module";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

/** Commands that start a process which serves. */
const PROCESSES = ["agent", "controller", "standalone"];

/** The Node that `npm ci` brings into a checkout. */
const PINNED = fileURLToPath(new URL("../../node_modules/.bin/node", import.meta.url));
/** Signals that end or reload a process of Sluice. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGTERM", "SIGUSR2"];

const [major, minor] = process.versions.node.split(".").map(Number);
if (major >= 26 || (major === 24 && minor >= 15)) {
  // On again when the start is over, see `src/runtime/life/v8.ts`. Before the cache, which is one for
  // each set of flags.
  if (PROCESSES.includes(process.argv[2]))
    for (const flag of ["--no-maglev", "--no-turbofan"]) setFlagsFromString(flag);
  // With a filled cache, Node does not load its TypeScript compiler, which takes some 20 MB and a tenth of a second.
  // Without one, or on a read-only disk, Sluice works all the same.
  module.enableCompileCache();
  const { main } = await import("./sluice.ts");
  await main();
} else if (existsSync(PINNED)) {
  const child = spawn(PINNED, process.argv.slice(1), { stdio: "inherit" });
  for (const signal of SIGNALS) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exitCode = code ?? 1;
    else {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    }
  });
} else {
  const wanted = "wanted Node 24.15 (of 24) or 26 and newer";
  const how = "run `npm ci` in the checkout, which brings one";
  process.stderr.write(`sluice: ${wanted}, got ${process.versions.node}; ${how}\n`);
  process.exitCode = 69;
}
