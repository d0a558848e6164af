// A short run of `make demo`, on free ports.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { child } from "../kit/servers/child.ts";
import { areFree, close, freeShift, listen } from "../kit/servers/shift.ts";

const DEMO = join(import.meta.dirname, "../../deploy/demo/demo.ts");

const run = (test: TestContext, shift: number, seconds: number) =>
  child(test, process.execPath, [DEMO, "--seconds", `${seconds}`, "--shift", `${shift}`]);

/** Numbers of a user's last row: sent, 200, 429, 503, 401, other. */
function row(out: string, user: string): readonly number[] {
  const [, numbers = ""] =
    [...out.matchAll(new RegExp(`^${user}\\s.*/s((?:\\s+\\d+)+)$`, "gm"))].at(-1) ?? [];
  return numbers.trim().split(/\s+/).map(Number);
}

test("the demo shows accepts and refusals, applies its edit, and stops every process", async (t) => {
  const shift = await freeShift();
  const demo = run(t, shift, 4);
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  const out = demo.out();
  assert.match(
    out,
    /after 1 s[\s\S]*after 2 s[\s\S]*Edited per-user\.yaml[\s\S]*after 4 s[\s\S]*have been stopped/,
  );
  const [annSent = 0, annPassed = 0, , , , annOther = 0] = row(out, "ann");
  // A machine that is too busy to answer in time yields other statuses.
  assert.ok(annPassed > 0, out);
  assert.equal(annSent, annPassed + annOther, out);
  const [, carlPassed = 0, carlLimited = 0] = row(out, "carl");
  assert.ok(carlLimited > 0, out);
  // Without the edit, at most a burst of five and one request a second would pass.
  assert.ok(carlPassed > 5 + 4 + 1, out);
  const [, doraPassed = 0, , doraBusy = 0] = row(out, "dora");
  assert.ok(doraPassed > 0 && doraBusy > 0, out);
  const [guestSent = 0, , , , guestRefused = 0, guestOther = 0] = row(out, "guest");
  assert.ok(guestRefused > 0, out);
  assert.equal(guestSent, guestRefused + guestOther, out);
  assert.ok(await areFree(shift), "the ports are free again");
});

test("an interrupted demo stops at once, with every process", async (t) => {
  const shift = await freeShift();
  const demo = run(t, shift, 60);
  await demo.until("traffic", () => /after 1 s/.test(demo.out()));
  demo.kill("SIGINT");
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  assert.match(demo.out(), /All processes have been stopped/);
  assert.ok(await areFree(shift), "the ports are free again");
});

test("the demo names a port that is in use, and how to avoid it", async (t) => {
  const shift = await freeShift();
  const taken = await listen(9000 + shift);
  t.after(() => taken && close(taken));
  const demo = run(t, shift, 4);
  assert.equal(await demo.ended, 1);
  const message = `port ${9000 + shift}, which service needs, is in use`;
  assert.ok(demo.err().includes(message), demo.err());
  const command = `npm exec -- node deploy/demo/demo.ts --shift ${shift + 1_000}`;
  assert.ok(demo.err().includes(command), demo.err());
});
