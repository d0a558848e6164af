// Replays what callers of the reference system's policy API were answered, against the real process. Where
// Sluice answers otherwise on purpose, the step stands here with its reason; one that passes must be unlisted.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { grpcClient } from "../kit/grpc-client.ts";
import { standalone } from "../kit/standalone.ts";
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
  for (const where of Object.keys(OURS)) assert.ok(found.has(where), `${where} passes: unlist it`);
});
