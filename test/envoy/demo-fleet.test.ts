// A short run of `make demo-fleet`, on free ports.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { child } from "../kit/servers/child.ts";
import { areFree, FLEET, freeShift } from "../kit/servers/shift.ts";

const DEMO = join(import.meta.dirname, "../../deploy/demo/fleet.ts");

/** As the demo has them: requests a second, and a burst as large. */
const LIMIT = 20;

test("three agents hold one limit together, and one that is killed starts again", async (t) => {
  const shift = await freeShift(7_000, FLEET);
  const start = performance.now();
  const demo = child(t, process.execPath, [DEMO, "--seconds", "600", "--shift", `${shift}`]);
  /** The numbers of all rows of this name: process ids where there are any, then replies with 200, 429 and others. */
  const rows = (name: string) =>
    [...demo.out().matchAll(new RegExp(`^${name} ((?:\\s+\\d+)+)$`, "gm"))].map(
      ([, numbers = ""]) => numbers.trim().split(/\s+/).map(Number),
    );
  const agent = () => rows("Envoy 1").at(-1)?.[1] ?? 0;
  await demo.until("the limit is in force", () =>
    rows("together").some(([, refused = 0]) => refused > 0),
  );
  await demo.until("a controller leads", () => /^controller .* leads/m.test(demo.out()));
  const first = agent();
  process.kill(first, "SIGKILL");
  await demo.until("its callers see errors", () => (rows("Envoy 1").at(-1)?.[4] ?? 0) > 0);
  await demo.until("the agent runs again", () => agent() !== first);
  const passedOf = (name: string) => rows(name).reduce((sum, [, , passed = 0]) => sum + passed, 0);
  const before = passedOf("Envoy 1");
  await demo.until("it lets requests pass", () => passedOf("Envoy 1") > before);
  const passed = rows("together").reduce((sum, [accepted = 0]) => sum + accepted, 0);
  const seconds = (performance.now() - start) / 1_000;
  assert.ok(passed <= LIMIT + LIMIT * seconds, demo.out());
  demo.kill("SIGINT");
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  assert.match(demo.out(), /All processes have been stopped/);
  assert.ok(await areFree(shift, FLEET), "the ports are free again");
});
