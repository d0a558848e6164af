import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { realChance, realClock } from "#runtime/life/clock.ts";

test("wall time has fractions and is always within a millisecond of the system clock", () => {
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

test("wall time follows when the system clock is set", (t) => {
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

test("wallOf agrees with the system clock and looks at it once a millisecond", (t) => {
  let steady = 1_000;
  t.mock.method(performance, "now", () => steady);
  let system = 5_000_000;
  const looks = t.mock.method(Date, "now", () => system);
  const { wallOf } = realClock();
  for (let turn = 0; turn < 100; turn++) {
    steady += 0.125;
    system = 5_000_000 + Math.floor(steady - 1_000);
    assert.ok(Math.abs(wallOf(steady) - (5_000_000 + steady - 1_000)) < 1);
  }
  assert.ok(looks.mock.callCount() <= 14, `${looks.mock.callCount()} looks`);
  system -= 3_600_000;
  steady += 1;
  assert.ok(Math.abs(wallOf(steady) - system) < 2, "follows when the system clock is set");
});

test("an alarm fires once, and not after it was cancelled", async () => {
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

/** Timers that a test lets run by `ms`, while the steady clock goes on by `passed`. */
function timed(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 1_000;
  t.mock.method(performance, "now", () => now);
  return (ms: number, passed = ms) => {
    now += passed;
    t.mock.timers.tick(ms);
  };
}

test("an alarm beyond the longest timer fires once, at its time", (t) => {
  const pass = timed(t);
  const longest = 2 ** 31 - 1;
  let [rung, others] = [0, 0];
  realClock().alarm(2 * longest + 10, () => rung++);
  const back = realClock().alarm(longest + 10, () => others++);
  pass(longest);
  back();
  pass(longest);
  pass(9);
  assert.equal(rung, 0);
  pass(1);
  pass(longest);
  assert.deepEqual([rung, others], [1, 0]);
});

test("platform timers are never set beyond their maximum", (t) => {
  const warned = t.mock.method(process, "emitWarning", () => undefined);
  realClock().alarm(2 ** 32, () => undefined)();
  assert.equal(warned.mock.callCount(), 0);
});

test("an alarm does not fire early, even if its timer does", (t) => {
  const pass = timed(t);
  let rung = 0;
  realClock().alarm(20.5, () => rung++);
  pass(21, 20.25);
  assert.equal(rung, 0);
  pass(1, 0.25);
  assert.equal(rung, 1);
});

test("an alarm for a time in the past fires, but not within the call", (t) => {
  const pass = timed(t);
  let rung = 0;
  realClock().alarm(-5, () => rung++);
  assert.equal(rung, 0);
  pass(1);
  assert.equal(rung, 1);
});

test("random numbers differ between processes and do not repeat", () => {
  const [first, second] = [realChance(), realChance()];
  const rolls = Array.from({ length: 5_000 }, first);
  assert.ok(rolls.every((rolled) => rolled >= 0 && rolled < 1));
  assert.equal(new Set(rolls).size, rolls.length);
  assert.ok(!rolls.includes(second()));
});
