// Loaded before every test file: a file whose tests are over while something is still open fails, and says
// what it was. Without it such a file would hang, or hide a leak of the code under test.

import { after } from "node:test";

/** For what closes by itself in the turns after the last test, ms. */
const GRACE_MS = 3_000;

after(() => {
  // The timer keeps nothing alive: it rings only where something else does.
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().filter((kind) => kind !== "PipeWrap");
    process.stderr.write(`left open after the last test: ${open.join(", ")}\n`);
    process.exit(1);
  }, GRACE_MS).unref();
});
