// Turns keep to their times whatever the alarms do.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Clock } from "#base/clock.ts";
import { Ticker } from "#controller/ticker.ts";
import { fakeClock } from "../kit/clock.ts";

function ticking(clock: Clock, intervalMs = 1_000) {
  const seen = { at: [] as number[], late: [] as number[], skipped: 0 };
  const start = clock.now();
  const ticker = new Ticker({
    clock,
    intervalMs,
    turn: (late) => {
      seen.at.push(clock.now() - start);
      seen.late.push(late);
    },
    skipped: (turns) => {
      seen.skipped += turns;
    },
  });
  return { ticker, seen };
}

test("alarms that ring late do not shift the turns after them", () => {
  const clock = fakeClock();
  const lazy: Clock = { ...clock, alarm: (ms, ring) => clock.alarm(ms + 7, ring) };
  const { ticker, seen } = ticking(lazy);
  clock.advance(100_000);
  ticker.stop();
  assert.equal(seen.at.length, 99);
  assert.ok(seen.at.every((at, turn) => at === (turn + 1) * 1_000 + 7));
  assert.deepEqual(new Set(seen.late), new Set([7]));
  assert.equal(seen.skipped, 0);
});

test("turns whose time has passed are skipped and counted, never queued", () => {
  const clock = fakeClock();
  let asleep = 0;
  const sleepy: Clock = { ...clock, now: () => clock.now() + asleep };
  const { ticker, seen } = ticking(sleepy);
  clock.advance(1_000);
  asleep = 3_400;
  clock.advance(1_000);
  ticker.stop();
  assert.deepEqual(seen.at, [1_000, 5_400]);
  assert.deepEqual(seen.late, [0, 400]);
  assert.equal(seen.skipped, 3);
});

test("an alarm that rings a moment early is the turn that it was set for, and no turn comes twice", () => {
  const clock = fakeClock();
  const early: Clock = { ...clock, alarm: (ms, ring) => clock.alarm(Math.max(0, ms - 0.6), ring) };
  const { ticker, seen } = ticking(early, 10);
  clock.advance(1_000);
  ticker.stop();
  assert.ok(Math.abs(seen.at.length - 100) <= 1, `${seen.at.length} turns`);
  assert.equal(seen.skipped, 0);
});

test("stopped in its own turn, it rings no more", () => {
  const clock = fakeClock();
  let turns = 0;
  const ticker = new Ticker({
    clock,
    intervalMs: 10,
    turn: () => {
      turns += 1;
      ticker.stop();
    },
    skipped: () => undefined,
  });
  clock.advance(100);
  assert.equal(turns, 1);
  assert.equal(clock.alarms, 0);
});

test("whatever the delays, turns and skipped ones add up to the time that went by", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(5_000), { maxLength: 30 }), (delays) => {
      const clock = fakeClock();
      let asleep = 0;
      const sleepy: Clock = { ...clock, now: () => clock.now() + asleep };
      const { ticker, seen } = ticking(sleepy);
      for (const delay of delays) {
        asleep += delay;
        clock.advance(1_000);
      }
      ticker.stop();
      const passed = seen.at.at(-1) ?? 0;
      assert.equal(seen.at.length + seen.skipped, Math.floor(passed / 1_000));
    }),
    { numRuns: 100 },
  );
});
