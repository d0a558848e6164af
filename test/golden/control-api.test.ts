// Replays recorded exchanges with the reference implementation's policy API against a running Sluice. Every difference
// must be listed in `OURS` with its reason, and every listed step must differ.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { grpcClient } from "../kit/clients/grpc.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { caller, OURS, replayControlApi } from "./control-api.ts";

test("recorded exchanges with the policy API", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const client = grpcClient(t, address);
  const callGrpc = await caller((path, bytes) => client.unary(path, bytes));
  const folder = join(import.meta.dirname, "control-api");
  const { steps, differences } = await replayControlApi(folder, address, callGrpc);
  assert.ok(steps > 60, `${steps} steps`);
  const found = new Map(differences.map(({ file, step, text }) => [`${file} ${step}`, text]));
  const wrong = [...found].filter(([where]) => !(where in OURS));
  assert.deepEqual(wrong, []);
  for (const where of Object.keys(OURS))
    assert.ok(found.has(where), `${where} passes: remove it from OURS`);
});
