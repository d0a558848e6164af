// Loaded before every test file: fails a file whose tests have ended while a handle is still open, and names the
// handle. Without this guard such a file would hang, or hide a leak of the code under test.

import { after } from "node:test";

/** Time for handles that close by themselves after the last test. */
const GRACE_MS = 3_000;

after(() => {
  // The timer does not keep the process alive, so it fires only when something else does.
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().filter((kind) => kind !== "PipeWrap");
    process.stderr.write(`left open after the last test: ${open.join(", ")}\n`);
    process.exit(1);
  }, GRACE_MS).unref();
});
