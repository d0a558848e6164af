import assert from "node:assert/strict";
import { test } from "node:test";
import { realChance, realClock } from "#host/clock.ts";

test("wall time has fractions and never leaves the system's clock by a millisecond", () => {
  const { wall } = realClock();
  let fractions = 0;
  for (let turn = 0; turn < 10_000; turn++) {
    const before = Date.now();
    const shown = wall();
    const after = Date.now();
    assert.ok(shown >= before && shown < after + 1, `${before} <= ${shown} < ${after + 1}`);
    if (!Number.isInteger(shown)) fractions++;
  }
  assert.ok(fractions > 0);
});

test("wall time follows when the system's clock is set", (t) => {
  const { wall } = realClock();
  const now = Date.now();
  const set = t.mock.method(Date, "now", () => now - 3_600_000);
  assert.ok(Math.abs(wall() - (now - 3_600_000)) < 1);
  set.mock.mockImplementation(() => now + 3_600_000);
  assert.ok(Math.abs(wall() - (now + 3_600_000)) < 1);
  set.mock.restore();
  const system = Date.now;
  t.mock.method(Date, "now", () => system() - 3_600_000);
  wall();
  const shown = Array.from({ length: 1_000 }, wall).map((ms) => ms % 1);
  assert.ok(new Set(shown).size > 100, "fractions are kept after the step");
});

test("wall time goes on from what it said, and not back where the system's clock does", (t) => {
  const { wall, wallSince } = realClock();
  const start = wall();
  const later = wallSince(start);
  assert.ok(later >= start && later <= wall() + 1);
  const system = Date.now;
  t.mock.method(Date, "now", () => system() - 3_600_000);
  wall();
  assert.equal(wallSince(later), later);
});

test("an alarm rings once, and not after it was taken back", async () => {
  const { alarm } = realClock();
  const alive = setInterval(() => undefined, 1_000);
  const rung = Promise.withResolvers<void>();
  let others = 0;
  const back = alarm(0, () => others++);
  back();
  back();
  alarm(1, rung.resolve);
  await rung.promise;
  clearInterval(alive);
  assert.equal(others, 0);
});

test("an alarm beyond the longest timer does not ring at once", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let rung = 0;
  const back = realClock().alarm(2 ** 32, () => rung++);
  t.mock.timers.tick(2 ** 31 - 1);
  assert.equal(rung, 0);
  back();
});

test("dice differ from process to process and never repeat a run", () => {
  const [first, second] = [realChance(), realChance()];
  const rolls = Array.from({ length: 5_000 }, first);
  assert.ok(rolls.every((rolled) => rolled >= 0 && rolled < 1));
  assert.equal(new Set(rolls).size, rolls.length);
  assert.ok(!rolls.includes(second()));
});
