// The guard against overload, around an event loop in virtual time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Load, REST, VirtualLoop } from "./loop.ts";

/** A fifth of a millisecond for each check: the loop can do 5 000 a second. */
const COSTLY = { cost: 0.2 - REST, lasts: 5_000 } as const;

/** A loop of a process that has served some checks for five seconds. */
function warmLoop(...limits: ConstructorParameters<typeof VirtualLoop>): VirtualLoop {
  const loop = new VirtualLoop(...limits);
  loop.run({ ...COSTLY, rate: 100, lasts: 5_100 });
  loop.shares.length = 0;
  return loop;
}

function totalOf(outcomes: ReturnType<VirtualLoop["run"]>): { judged: number; shed: number } {
  const all = [...outcomes.values()];
  return {
    judged: all.reduce((sum, { judged }) => sum + judged, 0),
    shed: all.reduce((sum, { shed }) => sum + shed, 0),
  };
}

for (const rate of [100, 2_500, 4_500]) {
  test(`sheds nothing at ${rate} checks a second of 5 000 that are possible`, () => {
    const loop = warmLoop();
    const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate }));
    assert.equal(shed, 0);
    assert.equal(judged, rate * 5);
    assert.deepEqual(loop.changes, []);
  });
}

test("pauses of 50 ms shed nothing, even five a second at half of the load that is possible", () => {
  const loop = warmLoop();
  let next = loop.now();
  const outcomes = loop.run({ ...COSTLY, rate: 2_500 }, (now) => {
    if (now < next) return;
    next = now + 200;
    loop.pause(50);
  });
  assert.equal(totalOf(outcomes).shed, 0);
});

test("a burst that takes 190 ms sheds nothing", () => {
  const loop = warmLoop();
  const { judged, shed } = totalOf(loop.run({ cost: 0.08 - REST, rate: 1_000_000, lasts: 2.4 }));
  assert.deepEqual([judged, shed], [2_400, 0]);
});

test("one pause of 400 ms sheds nothing at a small load", () => {
  const loop = warmLoop();
  let paused = false;
  const outcomes = loop.run({ ...COSTLY, rate: 200 }, () => {
    if (!paused) loop.pause(400);
    paused = true;
  });
  assert.equal(totalOf(outcomes).shed, 0);
});

test("a machine that is busy with others sheds nothing while a few checks at a time are judged", () => {
  const loop = warmLoop();
  // Each check takes 60 ms.
  loop.slowness = 300;
  assert.equal(totalOf(loop.run({ ...COSTLY, rate: 15 })).shed, 0);
});

test("a thread that gets a fifth of a processor sheds what is too much for that", () => {
  const loop = warmLoop();
  loop.slowness = 5;
  const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate: 3_000 }));
  assert.ok(judged > 3_000 && shed > judged, `${judged} judged, ${shed} shed`);
});

for (const times of [1.5, 3, 5]) {
  test(`at ${times} times of what is possible it sheds what is too much, and no more`, () => {
    const loop = warmLoop();
    const rate = 5_000 * times;
    const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate }));
    assert.equal(judged + shed, rate * 5);
    // The time that is left beside the answers to checks that are shed.
    const possible = 5_000 * 5;
    const left = (possible - (shed * REST) / 0.2) / possible;
    assert.ok(judged >= 0.8 * left * possible, `${judged} judged of ${left * possible}`);
    assert.deepEqual(loop.changes, [true]);
  });

  test(`at ${times} times of what is possible the share settles without swinging`, () => {
    const loop = warmLoop();
    loop.run({ ...COSTLY, rate: 5_000 * times });
    const began = loop.shares[0]?.at ?? 0;
    const settled = loop.shares.filter(({ at }) => at > began + 2_000).map(({ share }) => share);
    const [least, most] = [Math.min(...settled), Math.max(...settled)];
    assert.ok(most - least < 0.35, `${least} to ${most}`);
    assert.ok(least > 0, "shedding never stops while the overload lasts");
    // The backlog that there was before anything was shed is gone, and a new one never comes.
    assert.ok(loop.guard.delay < 4 * 25, `${loop.guard.delay} ms`);
  });
}

test("max_delay: waits that are not longer shed nothing", () => {
  // A backlog of 400 ms builds up.
  const load: Load = { ...COSTLY, rate: 6_000, lasts: 2_000 };
  assert.equal(totalOf(warmLoop({ max_delay: 450 }).run(load)).shed, 0);
  assert.ok(totalOf(warmLoop({ max_delay: 200 }).run(load)).shed > 0);
});

test("in the first seconds of a process, whose code is slow, a delay has to last for a second", () => {
  const load: Load = { ...COSTLY, rate: 10_000, lasts: 450 };
  assert.equal(totalOf(new VirtualLoop().run(load)).shed, 0);
  assert.ok(totalOf(warmLoop().run(load)).shed > 0);
  assert.ok(totalOf(new VirtualLoop().run({ ...load, lasts: 2_000 })).shed > 0);
});

test("important checks do not wait for longer than the limit, once the share has settled", () => {
  const loop = warmLoop({ max_delay: 50 });
  const priority = (index: number) => (index % 10 === 0 ? 200 : 1);
  const outcomes = loop.run({ ...COSTLY, rate: 15_000, lasts: 8_000, priority });
  const { judged, shed, waits } = outcomes.get(200) ?? assert.fail();
  assert.equal(shed, 0, `${judged} judged`);
  const settled = waits.slice(waits.length / 2).sort((a, b) => a - b);
  assert.ok((settled[Math.floor(settled.length * 0.99)] ?? 0) < 75, `${settled.at(-1)} ms`);
});

test("the least important checks are shed first, one priority after the other", () => {
  const loop = warmLoop();
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
    const loop = warmLoop();
    const load = { ...COSTLY, rate, priority: (index: number) => (index % 20 === 0 ? 200 : 1) };
    const { judged, shed } = loop.run(load).get(200) ?? assert.fail();
    assert.ok(shed / (judged + shed) < 0.05, `${shed} of ${judged + shed} at ${rate} a second`);
  }
});

test("everything is judged again within two seconds after the overload, and the measuring ends", () => {
  const loop = warmLoop();
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

test("nothing is shed where judging is not what takes the time", () => {
  const cheap = warmLoop();
  assert.equal(totalOf(cheap.run({ cost: REST / 4, rate: 120_000, lasts: 3_000 })).shed, 0);
  const busy = warmLoop();
  const load: Load = { ...COSTLY, rate: 2_500, lasts: 5_000 };
  assert.equal(totalOf(busy.run(load, () => busy.pause(150))).shed, 0);
});

test("judging gets half of the time that the rest takes, however far the agent is behind", () => {
  const loop = warmLoop();
  const { judged, shed } = totalOf(loop.run({ ...COSTLY, rate: 60_000 }));
  const [judging, rest] = [judged * COSTLY.cost, (judged + shed) * REST];
  assert.ok(judging > 0.45 * rest && judging < 0.7 * rest, `${judging} ms beside ${rest} ms`);
});

test("a load just above what is possible is one episode, or a few", () => {
  const loop = warmLoop();
  loop.run({ ...COSTLY, rate: 5_250, lasts: 20_000 });
  assert.ok(loop.changes.length <= 3, `${loop.changes.length} changes`);
});

test("checks in progress are bounded, and the least important ones have to wait for no room", () => {
  const loop = warmLoop({ max_in_progress: 100 });
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

test("the first checks of an episode are shed by their priority, too", () => {
  const loop = new VirtualLoop({ max_in_progress: 100 });
  const { guard } = loop;
  for (let at = 0; at < 90; at++) guard.begun();
  const shed = { low: 0, high: 0 };
  for (let at = 0; at < 200; at++) {
    assert.ok(guard.attend(loop.now()));
    const isHigh = at % 10 === 0;
    if (guard.sheds(isHigh ? 90 : 3, loop.now()) !== undefined) shed[isHigh ? "high" : "low"]++;
  }
  assert.equal(shed.high, 0);
  assert.ok(shed.low > 60, `${shed.low}`);
});

test("a guard that is closed measures and sheds nothing", () => {
  const loop = warmLoop();
  loop.run({ ...COSTLY, rate: 15_000 });
  loop.guard.close();
  assert.equal(loop.alarms, 0);
  const { shed } = totalOf(loop.run({ ...COSTLY, rate: 15_000 }));
  assert.equal(shed, 0);
  assert.equal(loop.alarms, 0);
});
