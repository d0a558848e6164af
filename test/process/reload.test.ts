// SIGHUP at a real process: what it read from files, and the files that it writes, may have changed.

import assert from "node:assert/strict";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

test("after SIGHUP lines go to a new log file where the old one was moved away", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "sluice.log");
  const writers = JSON.stringify([{ file: "stderr" }, { file: path }]);
  const { child } = await standaloneProcess(t, {
    policies: {},
    env: { SVC_AGENT_LOG_WRITERS: writers },
  });
  await until("lines are in the file", () => readFileSync(path, "utf8").includes("listening on"));
  renameSync(path, join(folder, "moved.log"));
  child.kill("SIGHUP");
  await until("the file is there again", () => existsSync(path));
  const reopened = () => readFileSync(path, "utf8").includes("log files are opened again");
  await until("lines go there", reopened);
  child.kill("SIGTERM");
  assert.equal(await child.ended, 0);
  assert.match(readFileSync(path, "utf8"), /drained/);
  assert.ok(!readFileSync(join(folder, "moved.log"), "utf8").includes("draining"));
});
