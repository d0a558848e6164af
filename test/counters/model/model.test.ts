// Random schedules of agents that share buckets, against the bound of each mode. The seeds are always the same; more of
// them run with `npm run -s test:model -- --schedules 100000`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runSchedules } from "./schedules.ts";

test("no schedule of 1 000 admits more than its bound, and none loses a token for ever", async (t) => {
  const { lines, faults } = await runSchedules(1, 1_000);
  for (const line of lines) t.diagnostic(line);
  assert.deepEqual(faults, []);
  assert.equal(lines.length, 3, "all three modes");
});

test("tokens that come back while a reply is on its way are admitted when they are spent again, not before", async () => {
  const { faults } = await runSchedules(45_502, 1);
  assert.deepEqual(faults, []);
});

test("flows that the owner admits are dated when it says so, also where agents report others later", async () => {
  const { faults } = await runSchedules(78_514, 1);
  assert.deepEqual(faults, []);
});
