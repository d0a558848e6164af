// The demo as `make demo` runs it, a short one, on ports that are free.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { child } from "../kit/child.ts";
import { areFree, close, freeShift, listen } from "../kit/shift.ts";

const DEMO = join(import.meta.dirname, "../../deploy/demo/demo.ts");

const run = (test: TestContext, shift: number, seconds: number) =>
  child(test, process.execPath, [DEMO, "--seconds", `${seconds}`, "--shift", `${shift}`]);

/** Numbers of a user's last row: sent, 200, 429, 503, 401, other. */
function row(out: string, user: string): readonly number[] {
  const [, numbers = ""] =
    [...out.matchAll(new RegExp(`^${user}\\s.*/s((?:\\s+\\d+)+)$`, "gm"))].at(-1) ?? [];
  return numbers.trim().split(/\s+/).map(Number);
}

test("the demo shows accepts and refusals live, sees its edit, and leaves nothing behind", async (t) => {
  const shift = await freeShift();
  const demo = run(t, shift, 4);
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  const out = demo.out();
  assert.match(
    out,
    /after 1 s[\s\S]*after 2 s[\s\S]*Edited per-user\.yaml[\s\S]*after 4 s[\s\S]*is stopped/,
  );
  const [annSent = 0, annPassed = 0, , , , annOther = 0] = row(out, "ann");
  // Other is what a machine too busy to answer in time made of it.
  assert.ok(annPassed > 0, out);
  assert.equal(annSent, annPassed + annOther, out);
  const [, carlPassed = 0, carlLimited = 0] = row(out, "carl");
  assert.ok(carlLimited > 0, out);
  // Two seconds at one a second and a burst of five would be all, were the edit not seen.
  assert.ok(carlPassed > 5 + 4 + 1, out);
  const [, doraPassed = 0, , doraBusy = 0] = row(out, "dora");
  assert.ok(doraPassed > 0 && doraBusy > 0, out);
  const [nobodySent = 0, , , , nobodyRefused = 0, nobodyOther = 0] = row(out, "nobody");
  assert.ok(nobodyRefused > 0, out);
  assert.equal(nobodySent, nobodyRefused + nobodyOther, out);
  assert.ok(await areFree(shift), "the ports are free again");
});

test("an interrupted demo stops at once and leaves nothing behind", async (t) => {
  const shift = await freeShift();
  const demo = run(t, shift, 60);
  await demo.until("traffic", () => /after 1 s/.test(demo.out()));
  demo.kill("SIGINT");
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  assert.match(demo.out(), /Everything is stopped/);
  assert.ok(await areFree(shift), "the ports are free again");
});

test("a port that is taken is named, and how to go round it", async (t) => {
  const shift = await freeShift();
  const taken = await listen(9000 + shift);
  t.after(() => taken && close(taken));
  const demo = run(t, shift, 4);
  assert.equal(await demo.ended, 1);
  const said = `port ${9000 + shift}, which service needs, is taken`;
  assert.ok(demo.err().includes(said), demo.err());
  assert.match(demo.err(), /--shift/);
});
