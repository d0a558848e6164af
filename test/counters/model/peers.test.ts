// Random schedules of agents that count for each other, against the bound that docs/counters.md states. More of them run
// with `npm run -s test:model -- --owner peers --schedules 100000`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runPeersSchedules } from "./peers-schedules.ts";

test("no schedule of 1 000 over peers admits more than its bound, and none loses a token for ever", async (t) => {
  const { lines, faults } = await runPeersSchedules(1, 1_000);
  for (const line of lines) t.diagnostic(line);
  assert.deepEqual(faults, []);
});
