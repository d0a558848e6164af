// The demo of the closed loop as `make demo-loop` runs it, a short overload with the policy only: it must cut
// what is too much, and latency must come back.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { child } from "../kit/child.ts";
import { areFree, freeShift } from "../kit/shift.ts";

const DEMO = join(import.meta.dirname, "../../deploy/demo/loop.ts");

interface Row {
  readonly offered: number;
  readonly goodput: number;
  readonly p95: number;
  readonly refused: number;
}

function row(out: string, phase: string): Row {
  const [, numbers = ""] = new RegExp(`^${phase}((?:\\s+\\d+)+)$`, "m").exec(out) ?? [];
  const [offered, goodput, p95, refused] = numbers.trim().split(/\s+/).map(Number);
  for (const value of [offered, goodput, p95, refused]) assert.ok(value !== undefined, out);
  return { offered: offered ?? 0, goodput: goodput ?? 0, p95: p95 ?? 0, refused: refused ?? 0 };
}

test("an overload is cut by what the policy measures, and latency recovers", async (t) => {
  const shift = await freeShift(20_001);
  const flags = ["--policy-only", "--seconds", "16", "--shift", `${shift}`];
  const demo = child(t, process.execPath, [DEMO, ...flags]);
  assert.equal(await demo.ended, 0, demo.out() + demo.err());
  const out = demo.out();
  const before = row(out, "before");
  const comes = row(out, "overload comes");
  const stays = row(out, "overload stays");
  const after = row(out, "after it");
  assert.ok(comes.offered > 2 * before.offered, out);
  assert.ok(comes.p95 > 300, `the service is slow without a policy that has seen it\n${out}`);
  // 250 come, and 100 are all that the service can answer.
  assert.ok(stays.refused > 100, out);
  assert.ok(after.p95 < comes.p95 / 2, out);
  assert.ok(after.goodput > after.offered / 2, out);
  assert.match(out, /Everything is stopped/);
  assert.ok(await areFree(shift), "the ports are free again");
});
