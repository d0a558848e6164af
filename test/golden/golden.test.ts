// Replays recorded checks of the reference implementation, with its faults corrected, against a running Sluice.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { copyPolicies, replayDataPlane } from "./data-plane.ts";
import { EXCEPTIONS, LEFT_OUT, NAMES } from "./exceptions.ts";
import { type Standalone, startStandalone } from "./standalone.ts";

const CASES = join(import.meta.dirname, "data-plane");
const policies = mkdtempSync(join(tmpdir(), "sluice-golden-"));
let sluice: Standalone | undefined;

before(async () => {
  for (const name of readdirSync(CASES)) {
    const folder = join(CASES, name, "policies");
    if (!existsSync(folder)) continue;
    copyPolicies(folder, policies);
  }
  sluice = await startStandalone(policies);
});

after(async () => {
  await sluice?.stop();
  rmSync(policies, { recursive: true });
});

test("the recorded cases pass, except the steps that are listed with their reasons", async () => {
  const seen = await replayDataPlane(CASES, sluice?.address ?? "");
  assert.equal(seen.size, readdirSync(CASES).length, "every case ran");
  const wrong: string[] = [];
  for (const [name, steps] of seen) {
    for (const [step, failure] of steps) {
      const excused = EXCEPTIONS[name]?.[step] !== undefined;
      if (failure !== undefined && !excused) wrong.push(`${name} step ${step}:\n${failure}`);
      if (failure === undefined && excused)
        wrong.push(`${name} step ${step} passes: remove it from EXCEPTIONS`);
    }
  }
  for (const [name, steps] of Object.entries(EXCEPTIONS)) {
    for (const step of Object.keys(steps)) {
      if (seen.get(name)?.has(Number(step)) !== true) wrong.push(`${name} has no step ${step}`);
    }
  }
  assert.equal(wrong.length, 0, wrong.join("\n"));
});

test("every recorded case is replayed, or left out for a reason that is listed", () => {
  const accounted = [...readdirSync(CASES), ...Object.keys(LEFT_OUT)];
  assert.deepEqual(accounted.sort(), [...NAMES].sort());
  assert.equal(new Set(NAMES).size, 72);
});
