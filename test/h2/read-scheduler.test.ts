import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import {
  MAX_ACCEPTS_IN_A_ROW,
  MAX_READ_AHEAD_TOTAL,
  MAX_TURN_MS,
  MAX_WORK_PER_SLICE,
  MAX_WORK_PER_TURN,
  ReadScheduler,
  WORK_BETWEEN_CLOCK_READINGS,
} from "#h2/read-scheduler.ts";
import { fakeClock } from "../kit/clock.ts";

/** A connection with this much work, done unit by unit, which records the work of each time slice. */
function connection(scheduler: ReadScheduler, units: number, each: () => void = () => undefined) {
  const visits: number[] = [];
  let left = units;
  return {
    since: scheduler.now(),
    visits,
    work(): boolean {
      let done = 0;
      for (let goesOn = true; goesOn && left > 0; left--) {
        each();
        done++;
        goesOn = scheduler.spend(1);
      }
      visits.push(done);
      return left > 0;
    },
  };
}

/** Turns of which this one is used up. */
function full(clock = fakeClock()): ReadScheduler {
  const scheduler = new ReadScheduler(clock);
  scheduler.spend(MAX_WORK_PER_TURN);
  return scheduler;
}

test("a turn handles a bounded amount, whichever connections it comes from", async () => {
  const scheduler = new ReadScheduler(fakeClock());
  for (let left = MAX_WORK_PER_TURN; left > 0; left -= MAX_WORK_PER_SLICE) {
    assert.equal(scheduler.startSlice(), true);
    assert.equal(scheduler.spend(MAX_WORK_PER_SLICE - 1), true);
    assert.equal(scheduler.spend(1), false, "the time slice is over");
  }
  assert.equal(scheduler.startSlice(), false, "the turn is over");
  await turn();
  assert.equal(scheduler.startSlice(), true, "the next turn begins");
});

test("queued connections get time slices in order, and none overtakes another", async () => {
  const scheduler = full();
  const many = Array.from({ length: 6 }, () => connection(scheduler, 2 * MAX_WORK_PER_SLICE));
  for (const each of many) scheduler.enqueue(each);
  const visited = () => many.map(({ visits }) => visits.length);
  await turn();
  assert.deepEqual(visited(), [1, 1, 1, 1, 0, 0]);
  assert.equal(scheduler.startSlice(), false, "others wait behind them");
  await turn();
  assert.deepEqual(visited(), [2, 2, 1, 1, 1, 1]);
  await turn();
  assert.deepEqual(visited(), [2, 2, 2, 2, 2, 2]);
  await turn();
  assert.equal(scheduler.startSlice(), true);
});

test("a turn ends in time where a unit of work takes long", async () => {
  const clock = fakeClock();
  const scheduler = full(clock);
  const [first, second] = [0, 1].map(() => connection(scheduler, 1_000, () => clock.advance(1)));
  assert.ok(first && second);
  scheduler.enqueue(first);
  scheduler.enqueue(second);
  await turn();
  const [done = 0] = first.visits;
  assert.ok(done >= MAX_TURN_MS && done < MAX_TURN_MS + WORK_BETWEEN_CLOCK_READINGS, `${done} ms`);
  assert.deepEqual(second.visits, []);
  await turn();
  assert.equal(second.visits.length, 1);
});

test("a turn without a line ends in time as well", async () => {
  const clock = fakeClock();
  const scheduler = new ReadScheduler(clock);
  let done = 0;
  // What arrives in one turn, each from another connection.
  for (; done < 1_000 && scheduler.startSlice(); done++) {
    clock.advance(1);
    scheduler.spend(1);
  }
  assert.ok(done <= MAX_TURN_MS + 2 * WORK_BETWEEN_CLOCK_READINGS, `${done} ms`);
  await turn();
  assert.equal(scheduler.startSlice(), true);
});

test("the wait is the median of the work since the last question", async () => {
  const clock = fakeClock();
  const scheduler = full(clock);
  scheduler.takeMedianDelay();
  const first = connection(scheduler, 1);
  clock.advance(30);
  const others = Array.from({ length: 3 }, () => connection(scheduler, 1));
  clock.advance(10);
  for (const each of [first, ...others]) scheduler.enqueue(each);
  await turn();
  assert.equal(scheduler.takeMedianDelay(), 10);
  assert.equal(scheduler.takeMedianDelay(), undefined, "nobody had a turn since");
  assert.ok(scheduler.startSlice());
  scheduler.spend(1);
  assert.equal(scheduler.takeMedianDelay(), 0);
});

test("the backlog of one caller is no wait of the others, who send more", async () => {
  const clock = fakeClock();
  const scheduler = full(clock);
  const greedy = connection(scheduler, 1_000_000);
  clock.advance(1_000);
  scheduler.enqueue(greedy);
  for (let at = 0; at < 10; at++) {
    const honest = Array.from({ length: 3 }, () => connection(scheduler, 100));
    for (const each of honest) scheduler.enqueue(each);
    clock.advance(5);
    await turn();
  }
  assert.equal(greedy.visits.length, 10);
  assert.equal(scheduler.takeMedianDelay(), 5);
});

test("new connections that have much to do leave half of each turn to the others", async () => {
  const scheduler = full();
  const waiting = connection(scheduler, 1_000 * MAX_WORK_PER_SLICE);
  scheduler.enqueue(waiting);
  for (let at = 0; at < 20; at++) {
    for (let more = 0; more < 64; more++) scheduler.enqueue(connection(scheduler, 16), true);
    await turn();
  }
  assert.ok(waiting.visits.length >= 10, `${waiting.visits.length} visits`);
});

test("what connections read ahead is bounded for all of them together", () => {
  const scheduler = new ReadScheduler(fakeClock());
  assert.equal(scheduler.countReadAhead(MAX_READ_AHEAD_TOTAL - 1), true);
  assert.equal(scheduler.countReadAhead(1), false);
  assert.equal(scheduler.countReadAhead(-1), true);
});

test("while connections come in, turns only accept; but not for ever", async () => {
  const scheduler = new ReadScheduler(fakeClock());
  scheduler.connectionAccepted();
  assert.equal(scheduler.startSlice(), false);
  const waiting = connection(scheduler, 1);
  scheduler.enqueue(waiting);
  for (let row = 1; row < MAX_ACCEPTS_IN_A_ROW; row++) {
    await turn();
    assert.deepEqual(waiting.visits, []);
    scheduler.connectionAccepted();
  }
  await turn();
  scheduler.connectionAccepted();
  await turn();
  assert.deepEqual(waiting.visits, [1], "the flood goes on, and the connection gets its turn");
});

test("after the last connection has come in, work goes on with the next turn", async () => {
  const scheduler = new ReadScheduler(fakeClock());
  scheduler.connectionAccepted();
  const waiting = connection(scheduler, 1);
  scheduler.enqueue(waiting);
  await turn();
  assert.deepEqual(waiting.visits, [], "this turn shows that no further connection came");
  await turn();
  assert.deepEqual(waiting.visits, [1]);
});

test("a new connection precedes those in the queue", async () => {
  const scheduler = full();
  const many = Array.from({ length: 8 }, () => connection(scheduler, MAX_WORK_PER_SLICE));
  for (const each of many) scheduler.enqueue(each);
  const newcomer = connection(scheduler, 1);
  scheduler.enqueue(newcomer, true);
  await turn();
  assert.deepEqual(newcomer.visits, [1]);
  assert.deepEqual(
    many.map(({ visits }) => visits.length),
    [1, 1, 1, 1, 0, 0, 0, 0],
  );
});
