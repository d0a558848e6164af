// The guard against left-over handles fails when there is one.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { child } from "./kit/child.ts";
import { folderOf } from "./kit/folder.ts";

const GUARD = join(import.meta.dirname, "kit/handles.ts");

function file(body: string): string {
  return `import { test } from "node:test";
import { createServer } from "node:http";
test("t", async () => { ${body} });`;
}

test("a test file that leaves a server open fails and says so; one that does not passes", async (t) => {
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
