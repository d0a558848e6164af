// `sluice injector` as a program: it serves, ends in order on a signal, and leaves no key behind.

import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { variables } from "../kit/process.ts";
import { child } from "../kit/servers/child.ts";
import { cluster } from "./cluster.ts";

const PROGRAM = join(import.meta.dirname, "../../src/cli/sluice.js");

test("it ends in order on a signal, and the folder with its key is gone", async (t) => {
  const held = await cluster(t);
  held.addNamespace("shop");
  const folder = folderOf(t);
  const env = {
    ...variables("injector", { SIDECAR_IMAGE: "sluice:1", WEBHOOK_ADDR: "127.0.0.1:0" }),
    KUBECONFIG: held.kubeconfig,
    TMPDIR: folder,
  };
  const program = child(t, process.execPath, [PROGRAM, "injector"], { env, cwd: folder });
  await program.until("the webhook listens", () =>
    /"component":"webhook".*listening on/.test(program.err()),
  );
  const [keys = ""] = readdirSync(folder).filter((name) => name.startsWith("sluice-injector-"));
  assert.notEqual(keys, "");
  assert.equal(statSync(join(folder, keys)).mode & 0o777, 0o700);
  for (const name of readdirSync(join(folder, keys))) {
    assert.equal(statSync(join(folder, keys, name)).mode & 0o777, 0o600, name);
  }
  program.kill("SIGTERM");
  assert.equal(await program.ended, 0, program.err());
  assert.ok(!existsSync(join(folder, keys)));
});

test("without a cluster it says what it wants", async (t) => {
  const folder = folderOf(t);
  const env = variables("injector", { SIDECAR_IMAGE: "sluice:1" });
  const program = child(t, process.execPath, [PROGRAM, "injector"], { env, cwd: folder });
  assert.notEqual(await program.ended, 0);
  assert.match(
    program.err(),
    /wanted a Kubernetes API server: a pod with a service account, or a kubeconfig/,
  );
});
