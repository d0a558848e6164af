// Turns keep their schedule, whatever the alarms do.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Clock } from "#base/clock.ts";
import { Schedule, Ticker } from "#controller/loop/ticker.ts";
import { fakeClock } from "../../kit/clock.ts";

function ticking(clock: Clock, intervalMs = 1_000) {
  const seen = { at: [] as number[], late: [] as number[], skipped: 0 };
  const start = clock.now();
  const ticker = new Ticker({
    schedule: new Schedule(clock),
    intervalMs,
    since: clock.now(),
    firstTookMs: 0,
    turn: (late) => {
      seen.at.push(clock.now() - start);
      seen.late.push(late);
    },
    skipped: (turns) => {
      seen.skipped += turns;
    },
    pace: () => undefined,
  });
  return { ticker, seen };
}

test("late alarms do not shift later turns", () => {
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

test("an alarm that rings a moment early starts the turn that it was set for, and no turn runs twice", () => {
  const clock = fakeClock();
  const early: Clock = { ...clock, alarm: (ms, ring) => clock.alarm(Math.max(0, ms - 0.6), ring) };
  const { ticker, seen } = ticking(early, 10);
  clock.advance(1_000);
  ticker.stop();
  assert.ok(Math.abs(seen.at.length - 100) <= 1, `${seen.at.length} turns`);
  assert.equal(seen.skipped, 0);
});

test("a ticker that is stopped during a turn runs no further one", () => {
  const clock = fakeClock();
  let turns = 0;
  const ticker = new Ticker({
    schedule: new Schedule(clock),
    intervalMs: 10,
    since: clock.now(),
    firstTookMs: 0,
    turn: () => {
      turns += 1;
      ticker.stop();
    },
    skipped: () => undefined,
    pace: () => undefined,
  });
  clock.advance(100);
  assert.equal(turns, 1);
  assert.equal(clock.alarms, 0);
});

test("whatever the delays, turns and skipped turns add up to the time that has passed", () => {
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

test("tickers that share a schedule turn at their own intervals by one alarm, until each is stopped", () => {
  const clock = fakeClock();
  const schedule = new Schedule(clock);
  const since = clock.now();
  const turns: string[] = [];
  const tickers: Ticker[] = [30, 10, 20, 10].map((intervalMs, at) => {
    const name = `${at}`;
    const turn = () => {
      turns.push(`${clock.now() - since} ${name}`);
      if (at === 3) tickers[2]?.stop();
    };
    const rest = { skipped: () => undefined, pace: () => undefined };
    return new Ticker({ schedule, intervalMs, since, firstTookMs: 0, turn, ...rest });
  });
  assert.equal(clock.alarms, 1);
  clock.advance(30);
  assert.deepEqual(turns.toSorted(), ["10 1", "10 3", "20 1", "20 3", "30 0", "30 1", "30 3"]);
  assert.equal(clock.alarms, 1);
  tickers[1]?.stop();
  tickers[3]?.stop();
  clock.advance(60);
  assert.deepEqual(turns.slice(7), ["60 0", "90 0"]);
  tickers[0]?.stop();
  assert.equal(clock.alarms, 0);
});

/** Turns that take `cost` ms, during which the clock goes on. */
function costly(intervalMs: number, first = 0) {
  const fake = fakeClock();
  const seen = { cost: 0, began: [] as number[], ended: [] as number[], skipped: 0 };
  const paces: boolean[] = [];
  let spent = 0;
  const now = () => fake.now() + spent;
  // Alarms are set on the clock without the time that turns have taken.
  const clock: Clock = { ...fake, now, alarm: (ms, ring) => fake.alarm(ms, ring) };
  const since = now();
  spent += first;
  const ticker = new Ticker({
    schedule: new Schedule(clock),
    intervalMs,
    since,
    firstTookMs: first,
    turn: () => {
      seen.began.push(now() - since);
      spent += seen.cost;
      seen.ended.push(now() - since);
    },
    skipped: (turns) => {
      seen.skipped += turns;
    },
    pace: (keeps) => void paces.push(keeps),
  });
  return { clock: fake, ticker, seen, paces, passed: () => now() - since };
}

test("each turn is followed by a pause of nine times its duration, and turns left out are counted", () => {
  const { clock, ticker, seen, passed } = costly(1);
  seen.cost = 5;
  clock.advance(4_500);
  ticker.stop();
  for (const [at, ended] of seen.ended.entries()) {
    const next = seen.began[at + 1];
    if (next !== undefined) assert.ok(next - ended >= 45, `${next} follows ${ended}`);
  }
  const share = (seen.began.length * seen.cost) / passed();
  assert.ok(share > 0.09 && share <= 0.101, `${share} of the time`);
  assert.equal(seen.began.length + seen.skipped, Math.floor(seen.began.at(-1) ?? 0));
});

test("the turn that the caller ran is followed by a pause too", () => {
  const { clock, ticker, seen } = costly(10, 20);
  assert.equal(ticker.due - clock.now(), 200);
  clock.advance(1_000);
  ticker.stop();
  assert.equal(seen.began[0], 200);
});

test("a turn that takes a tenth of the interval shifts no other", () => {
  const { clock, ticker, seen, paces } = costly(100);
  seen.cost = 10;
  clock.advance(9_000);
  ticker.stop();
  assert.ok(seen.began.every((at, turn) => Math.abs(at - (turn + 1) * 100) < 1e-6));
  assert.equal(seen.skipped, 0);
  assert.deepEqual(paces, []);
});

test("a single long turn is not reported; a pace that cannot be kept is, once, and once when it can be again", () => {
  const { clock, ticker, seen, paces } = costly(10);
  seen.cost = 3;
  clock.advance(30);
  seen.cost = 0;
  clock.advance(1_000);
  assert.deepEqual(paces, []);
  seen.cost = 3;
  clock.advance(5_000);
  assert.deepEqual(paces, [false]);
  seen.cost = 0;
  clock.advance(3_000);
  assert.deepEqual(paces, [false]);
  clock.advance(7_000);
  assert.deepEqual(paces, [false, true]);
  ticker.stop();
});

test("the third long turn in a row is the first that is reported", () => {
  const { clock, ticker, seen, paces } = costly(10);
  const runTurns = (cost: number, turns: number) => {
    seen.cost = cost;
    const until = seen.began.length + turns;
    while (seen.began.length < until) clock.advance(1);
  };
  runTurns(3, 2);
  runTurns(0, 1);
  runTurns(3, 2);
  assert.deepEqual(paces, []);
  runTurns(3, 1);
  assert.deepEqual(paces, [false]);
  ticker.stop();
});

test("a pace on the edge is reported at most once in ten seconds", () => {
  const { clock, ticker, seen, paces } = costly(10);
  for (let second = 0; second < 60; second++) {
    seen.cost = second % 2 === 0 ? 3 : 0;
    clock.advance(1_000);
  }
  ticker.stop();
  assert.ok(paces.length >= 2 && paces.length <= 7, `${paces.length} lines`);
});
