#!/usr/bin/env node
// The entry of the command `sluice`. It is plain JavaScript for two reasons: a Node too old for TypeScript can run it
// and name the version that is needed, and the cache of compiled modules is on before the first TypeScript file is read.

import module from "node:module";
import { setFlagsFromString } from "node:v8";

/** Commands that start a process which serves. */
const PROCESSES = ["agent", "controller", "standalone"];

const [major, minor] = process.versions.node.split(".").map(Number);
if (major >= 26 || (major === 24 && minor >= 15)) {
  // On again when the start is over, see `src/host/life/after-start.ts`. Before the cache, which is one for
  // each set of flags.
  if (PROCESSES.includes(process.argv[2]))
    for (const flag of ["--no-maglev", "--no-turbofan"]) setFlagsFromString(flag);
  // With a filled cache, Node does not load its TypeScript compiler, which takes some 20 MB and a tenth of a second.
  // Without one, or on a read-only disk, Sluice works all the same.
  module.enableCompileCache();
  const { main } = await import("./sluice.ts");
  await main();
} else {
  const wanted = "wanted Node 24.15 (of 24) or 26 and newer";
  const how = "in a checkout `npm ci` brings one, and `npm run -s sluice -- …` uses it";
  process.stderr.write(`sluice: ${wanted}, got ${process.versions.node}; ${how}\n`);
  process.exitCode = 69;
}
