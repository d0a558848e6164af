// The guard against overload, around an event loop in virtual time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Load, VirtualLoop } from "./loop.ts";

/** A fifth of a millisecond for each check: the loop can do 5 000 a second. */
const COSTLY = { cost: 0.2, lasts: 5_000 } as const;

function totalOf(outcomes: ReturnType<VirtualLoop["run"]>): { judged: number; shed: number } {
  const all = [...outcomes.values()];
  return {
    judged: all.reduce((sum, { judged }) => sum + judged, 0),
    shed: all.reduce((sum, { shed }) => sum + shed, 0),
  };
}

for (const rate of [100, 2_500, 4_500]) {
  test(`sheds nothing at ${rate} checks a second of 5 000 that are possible`, () => {
    const loop = new VirtualLoop();
    const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate }));
    assert.equal(shed, 0);
    assert.equal(judged, rate * 5);
    assert.deepEqual(loop.changes, []);
  });
}

test("pauses of 50 ms shed nothing, even five a second at half of the load that is possible", () => {
  const loop = new VirtualLoop();
  let next = loop.now();
  const outcomes = loop.run({ ...COSTLY, rate: 2_500 }, (now) => {
    if (now < next) return;
    next = now + 200;
    loop.pause(50);
  });
  assert.equal(totalOf(outcomes).shed, 0);
});

test("a burst that takes 190 ms sheds nothing", () => {
  const loop = new VirtualLoop();
  const { judged, shed } = totalOf(loop.run({ cost: 0.08, rate: 1_000_000, lasts: 2.4 }));
  assert.deepEqual([judged, shed], [2_400, 0]);
});

test("one pause of 400 ms sheds nothing at a small load", () => {
  const loop = new VirtualLoop();
  let paused = false;
  const outcomes = loop.run({ ...COSTLY, rate: 200 }, () => {
    if (!paused) loop.pause(400);
    paused = true;
  });
  assert.equal(totalOf(outcomes).shed, 0);
});

test("a machine that is busy with others sheds nothing while a few checks at a time are judged", () => {
  const loop = new VirtualLoop();
  // Each check takes 60 ms.
  loop.slowness = 300;
  assert.equal(totalOf(loop.run({ ...COSTLY, rate: 16 })).shed, 0);
});

test("a thread that gets a fifth of a processor sheds what is too much for that", () => {
  const loop = new VirtualLoop();
  loop.slowness = 5;
  const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate: 3_000 }));
  assert.ok(judged > 3_000 && shed > judged, `${judged} judged, ${shed} shed`);
});

for (const times of [1.5, 3, 10]) {
  test(`at ${times} times of what is possible it sheds what is too much, and no more`, () => {
    const loop = new VirtualLoop();
    const rate = 5_000 * times;
    const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate }));
    assert.equal(judged + shed, rate * 5);
    // The time that is left beside the answers to checks that are shed.
    const possible = 5_000 * 5;
    const left = (possible - (shed * 0.02) / 0.2) / possible;
    assert.ok(judged >= 0.8 * left * possible, `${judged} judged of ${left * possible}`);
    assert.deepEqual(loop.changes, [true]);
  });

  test(`at ${times} times of what is possible the share settles without swinging`, () => {
    const loop = new VirtualLoop();
    loop.run({ ...COSTLY, rate: 5_000 * times });
    const began = loop.shares[0]?.at ?? 0;
    const settled = loop.shares.filter(({ at }) => at > began + 2_000).map(({ share }) => share);
    const [least, most] = [Math.min(...settled), Math.max(...settled)];
    assert.ok(most - least < 0.25, `${least} to ${most}`);
    assert.ok(least > 0, "shedding never stops while the overload lasts");
    // The backlog that there was before anything was shed is gone, and a new one never comes.
    assert.ok(loop.guard.delay < 4 * 25, `${loop.guard.delay} ms`);
  });
}

test("max_delay: a delay that is not above it sheds nothing", () => {
  // A turn handles 512 checks at most, which takes 102 ms, and what is ready waits for two turns at most.
  const loop = new VirtualLoop({ max_delay: 210 });
  const { shed } = totalOf(loop.run({ ...COSTLY, rate: 15_000 }));
  assert.equal(shed, 0);
});

test("the least important checks are shed first, one priority after the other", () => {
  const loop = new VirtualLoop();
  const priorities = [1, 2, 4, 200];
  const priority = (index: number) => priorities[index % 4] ?? 0;
  const load: Load = { ...COSTLY, rate: 10_000, priority };
  // What came before anything was shed does not count.
  loop.run({ ...load, lasts: 1_500 });
  const outcomes = loop.run(load);
  const shedOf = (at: number) => {
    const { judged, shed } = outcomes.get(at) ?? assert.fail();
    return shed / (judged + shed);
  };
  assert.ok(shedOf(1) > 0.95, `${shedOf(1)} of the lowest`);
  assert.ok(shedOf(2) > 0.5 && shedOf(2) <= shedOf(1), `${shedOf(2)} of the next`);
  // What is possible beside the answers to those that are shed: 44 % of all.
  assert.ok(shedOf(4) < 0.4, `${shedOf(4)} of those above`);
  assert.equal(outcomes.get(200)?.shed, 0);
});

test("important checks that are few are hardly ever shed, even while the share settles", () => {
  for (const rate of [10_000, 15_000, 30_000]) {
    const loop = new VirtualLoop();
    const load = { ...COSTLY, rate, priority: (index: number) => (index % 20 === 0 ? 200 : 1) };
    const { judged, shed } = loop.run(load).get(200) ?? assert.fail();
    assert.ok(shed / (judged + shed) < 0.05, `${shed} of ${judged + shed} at ${rate} a second`);
  }
});

test("everything is judged again within two seconds after the overload, and the measuring ends", () => {
  const loop = new VirtualLoop();
  loop.run({ ...COSTLY, rate: 50_000 });
  assert.ok(loop.guard.share > 0.8);
  loop.rest(2_000);
  assert.equal(loop.guard.share, 0);
  const { shed } = totalOf(loop.run({ ...COSTLY, rate: 2_500, lasts: 2_000 }));
  assert.equal(shed, 0);
  assert.deepEqual(loop.changes, [true, false]);
  loop.rest(2_000);
  assert.equal(loop.alarms, 0);
});

test("some checks are judged however long the agent is behind, and all of them soon after", () => {
  const loop = new VirtualLoop();
  // Shedding does not help against this: each turn computes for longer than the limit, whatever is judged.
  loop.run({ ...COSTLY, rate: 2_500, lasts: 60_000 }, () => loop.pause(150));
  const { share } = loop.guard;
  assert.ok(share > 0.98 && share < 1, `${share} is shed`);
  loop.rest(2_000);
  assert.equal(loop.guard.share, 0);
});

test("a load just above what is possible is one episode, or a few", () => {
  const loop = new VirtualLoop();
  loop.run({ ...COSTLY, rate: 5_250, lasts: 20_000 });
  assert.ok(loop.changes.length <= 3, `${loop.changes.length} changes`);
});

test("a turn that is long is cut short while it lasts", () => {
  const loop = new VirtualLoop();
  // Five milliseconds each: a turn could handle 512 of them, which takes 2.5 seconds.
  const { judged, shed } = totalOf(loop.run({ cost: 5, rate: 1_000, lasts: 10_000 }));
  assert.ok(judged > 0 && shed > judged);
  const turns = loop.shares.filter(({ at }) => at > 6_000);
  const longest = Math.max(...turns.slice(1).map(({ at }, index) => at - (turns[index]?.at ?? at)));
  assert.ok(longest < 500, `${longest} ms`);
});

test("checks in progress are bounded, and the least important ones have to wait for no room", () => {
  const loop = new VirtualLoop({ max_in_progress: 100 });
  const { guard } = loop;
  const attend = () => loop.now() >= guard.until && guard.attend(loop.now());
  const sheds = (at: number) => (attend() ? guard.sheds(at, loop.now()) : undefined);
  for (let at = 0; at < 80; at++) guard.begun();
  assert.equal(sheds(0), undefined);
  guard.begun();
  for (let at = 0; at < 1_000; at++) if (sheds(at % 2 === 0 ? 3 : 90) === undefined) continue;
  loop.rest(25);
  for (let at = 0; at < 9; at++) guard.begun();
  // Nine tenths: half of them, which are the less important ones.
  const shed = { low: 0, high: 0 };
  for (let at = 0; at < 400; at++) {
    if (sheds(3) === "in_progress") shed.low++;
    if (sheds(90) === "in_progress") shed.high++;
  }
  assert.ok(shed.low > 390, `${shed.low}`);
  assert.equal(shed.high, 0);
  for (let at = 0; at < 10; at++) guard.begun();
  assert.equal(guard.inProgress, 100);
  assert.equal(sheds(90), "in_progress");
  for (let at = 0; at < 100; at++) guard.ended();
  assert.equal(sheds(3), undefined);
});

test("a guard that is closed measures and sheds nothing", () => {
  const loop = new VirtualLoop();
  loop.run({ ...COSTLY, rate: 15_000 });
  loop.guard.close();
  assert.equal(loop.alarms, 0);
  const { shed } = totalOf(loop.run({ ...COSTLY, rate: 15_000 }));
  assert.equal(shed, 0);
  assert.equal(loop.alarms, 0);
});
