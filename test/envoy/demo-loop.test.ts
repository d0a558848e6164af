// A short run of `make demo-loop` with the policy only: the policy must reject the excess of an overload, and
// latency must recover.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { child } from "../kit/servers/child.ts";
import { areFree, freeShift } from "../kit/servers/shift.ts";

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

test("the policy rejects the excess of an overload, and latency recovers", async (t) => {
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
  // 250 arrive each second, and the service can answer 100.
  assert.ok(stays.refused > 100, out);
  assert.ok(after.p95 < comes.p95 / 2, out);
  assert.ok(after.goodput > after.offered / 2, out);
  assert.match(out, /All processes have been stopped/);
  assert.ok(await areFree(shift), "the ports are free again");
});
