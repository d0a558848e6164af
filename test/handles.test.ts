// The guard against open handles fails a test file that leaves one open.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { folderOf } from "./kit/folder.ts";
import { child } from "./kit/servers/child.ts";

const GUARD = join(import.meta.dirname, "kit/handles.ts");

function file(body: string): string {
  return `import { test } from "node:test";
import { createServer } from "node:http";
test("t", async () => { ${body} });`;
}

test("a test file that leaves a server open fails, and one that closes it passes", async (t) => {
  const folder = folderOf(t, {
    "leaks.test.mjs": file("createServer().listen(0);"),
    "clean.test.mjs": file(
      "await new Promise((r) => createServer().listen(0).once('listening', function () { this.close(r); }));",
    ),
  });
  const env = { PATH: process.env["PATH"] };
  const run = (name: string) =>
    child(t, process.execPath, ["--import", GUARD, "--test", join(folder, name)], { env });
  const [leaks, clean] = [run("leaks.test.mjs"), run("clean.test.mjs")];
  assert.equal(await clean.ended, 0, clean.out());
  assert.equal(await leaks.ended, 1);
  assert.match(leaks.out(), /left open after the last test: TCPServerWrap/);
});
