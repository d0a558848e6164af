// SIGHUP at a real process: what it read from files, and the files that it writes, may have changed.

import assert from "node:assert/strict";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { passes } from "../kit/sluice/check.ts";
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
  const reopened = () => readFileSync(path, "utf8").includes("reopened the log files");
  await until("lines go there", reopened);
  child.kill("SIGTERM");
  assert.equal(await child.ended, 0);
  assert.match(readFileSync(path, "utf8"), /drained/);
  assert.ok(!readFileSync(join(folder, "moved.log"), "utf8").includes("draining"));
});

/** A bucket that gets no tokens at control point `shop`. */
function bucketOf(capacity: number, point = "shop"): string {
  return `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ${point} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${capacity} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s }
`;
}

test("SIGHUP reads the files of policies, and the log says so", async (t) => {
  const { child, policies, address } = await standaloneProcess(t, {
    policies: { "limit.yaml": bucketOf(0) },
  });
  assert.equal(await passes(address, "shop"), false);
  const said = "SIGHUP: reopened the log files, reading the policy files again";
  const lines = () => child.err().split("\n");
  assert.equal(
    lines().some((line) => line.includes(said)),
    false,
  );
  writeFileSync(join(policies, "limit.yaml"), bucketOf(1_000));
  child.kill("SIGHUP");
  await child.until("the edit is in force", () =>
    lines().some((line) => line.includes("changed: limit")),
  );
  assert.equal(lines().filter((line) => line.includes(said)).length, 1);
  assert.equal(await passes(address, "shop"), true);
  // A file with a fault is read again only when it changes, or on request.
  const failures = () => lines().filter((line) => line.includes("were not applied")).length;
  writeFileSync(join(policies, "limit.yaml"), "circuit: no\n");
  await child.until("the fault is reported", () => failures() === 1);
  child.kill("SIGHUP");
  await child.until("it is reported again", () => failures() === 2);
  child.kill("SIGTERM");
  assert.equal(await child.ended, 0);
});

test("--policies A --policies B loads the documents of both directories", async (t) => {
  const more = folderOf(t, { "second.yaml": bucketOf(0, "b") });
  const { child, address } = await standaloneProcess(t, {
    policies: { "first.yaml": bucketOf(0, "a") },
    args: ["--policies", more],
  });
  assert.deepEqual(
    [await passes(address, "a"), await passes(address, "b"), await passes(address, "c")],
    [false, false, true],
  );
  writeFileSync(join(more, "second.yaml"), bucketOf(1_000, "b"));
  child.kill("SIGHUP");
  await until("the edit is in force", () => passes(address, "b"));
  assert.equal(await passes(address, "a"), false);
});
