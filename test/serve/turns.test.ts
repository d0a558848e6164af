import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import {
  MAX_ACCEPTS_IN_A_ROW,
  MAX_READ_AHEAD_TOTAL,
  MAX_TURN_MS,
  MAX_WORK_PER_TURN,
  MAX_WORK_PER_VISIT,
  Turns,
  WORK_BETWEEN_LOOKS,
} from "#serve/turns.ts";
import { fakeClock } from "../kit/clock.ts";

/** A connection with this much work, done unit by unit, which notes what it did in each visit. */
function connection(turns: Turns, units: number, each: () => void = () => undefined) {
  const visits: number[] = [];
  let left = units;
  return {
    since: turns.now(),
    visits,
    work(): boolean {
      let done = 0;
      for (let goesOn = true; goesOn && left > 0; left--) {
        each();
        done++;
        goesOn = turns.spend(1);
      }
      visits.push(done);
      return left > 0;
    },
  };
}

/** Turns of which this one is used up. */
function full(clock = fakeClock()): Turns {
  const turns = new Turns(clock);
  turns.spend(MAX_WORK_PER_TURN);
  return turns;
}

test("a turn handles a bounded amount, whichever connections it comes from", async () => {
  const turns = new Turns(fakeClock());
  for (let left = MAX_WORK_PER_TURN; left > 0; left -= MAX_WORK_PER_VISIT) {
    assert.equal(turns.enter(), true);
    assert.equal(turns.spend(MAX_WORK_PER_VISIT - 1), true);
    assert.equal(turns.spend(1), false, "the visit is over");
  }
  assert.equal(turns.enter(), false, "the turn is over");
  await turn();
  assert.equal(turns.enter(), true, "the next turn begins");
});

test("connections in line take turns, in order, and nobody overtakes them", async () => {
  const turns = full();
  const many = Array.from({ length: 6 }, () => connection(turns, 2 * MAX_WORK_PER_VISIT));
  for (const each of many) turns.wait(each);
  const visited = () => many.map(({ visits }) => visits.length);
  await turn();
  assert.deepEqual(visited(), [1, 1, 1, 1, 0, 0]);
  assert.equal(turns.enter(), false, "others wait behind them");
  await turn();
  assert.deepEqual(visited(), [2, 2, 1, 1, 1, 1]);
  await turn();
  assert.deepEqual(visited(), [2, 2, 2, 2, 2, 2]);
  await turn();
  assert.equal(turns.enter(), true);
});

test("a turn ends in time where a unit of work takes long", async () => {
  const clock = fakeClock();
  const turns = full(clock);
  const [first, second] = [0, 1].map(() => connection(turns, 1_000, () => clock.advance(1)));
  assert.ok(first && second);
  turns.wait(first);
  turns.wait(second);
  await turn();
  const [done = 0] = first.visits;
  assert.ok(done >= MAX_TURN_MS && done < MAX_TURN_MS + WORK_BETWEEN_LOOKS, `${done} ms`);
  assert.deepEqual(second.visits, []);
  await turn();
  assert.equal(second.visits.length, 1);
});

test("a turn without a line ends in time as well", async () => {
  const clock = fakeClock();
  const turns = new Turns(clock);
  let done = 0;
  // What arrives in one turn, each from another connection.
  for (; done < 1_000 && turns.enter(); done++) {
    clock.advance(1);
    turns.spend(1);
  }
  assert.ok(done <= MAX_TURN_MS + 2 * WORK_BETWEEN_LOOKS, `${done} ms`);
  await turn();
  assert.equal(turns.enter(), true);
});

test("the wait is the median of the work since the last question", async () => {
  const clock = fakeClock();
  const turns = full(clock);
  turns.takeWait();
  const first = connection(turns, 1);
  clock.advance(30);
  const others = Array.from({ length: 3 }, () => connection(turns, 1));
  clock.advance(10);
  for (const each of [first, ...others]) turns.wait(each);
  await turn();
  assert.equal(turns.takeWait(), 10);
  assert.equal(turns.takeWait(), undefined, "nobody had a turn since");
  assert.ok(turns.enter());
  turns.spend(1);
  assert.equal(turns.takeWait(), 0);
});

test("the backlog of one caller is no wait of the others, who send more", async () => {
  const clock = fakeClock();
  const turns = full(clock);
  const greedy = connection(turns, 1_000_000);
  clock.advance(1_000);
  turns.wait(greedy);
  for (let at = 0; at < 10; at++) {
    const honest = Array.from({ length: 3 }, () => connection(turns, 100));
    for (const each of honest) turns.wait(each);
    clock.advance(5);
    await turn();
  }
  assert.equal(greedy.visits.length, 10);
  assert.equal(turns.takeWait(), 5);
});

test("new connections that have much to do leave half of each turn to the others", async () => {
  const turns = full();
  const waiting = connection(turns, 1_000 * MAX_WORK_PER_VISIT);
  turns.wait(waiting);
  for (let at = 0; at < 20; at++) {
    for (let more = 0; more < 64; more++) turns.wait(connection(turns, 16), true);
    await turn();
  }
  assert.ok(waiting.visits.length >= 10, `${waiting.visits.length} visits`);
});

test("what connections read ahead is bounded for all of them together", () => {
  const turns = new Turns(fakeClock());
  assert.equal(turns.hold(MAX_READ_AHEAD_TOTAL - 1), true);
  assert.equal(turns.hold(1), false);
  assert.equal(turns.hold(-1), true);
});

test("while connections come in, turns only accept; but not for ever", async () => {
  const turns = new Turns(fakeClock());
  turns.accepted();
  assert.equal(turns.enter(), false);
  const waiting = connection(turns, 1);
  turns.wait(waiting);
  for (let row = 1; row < MAX_ACCEPTS_IN_A_ROW; row++) {
    await turn();
    assert.deepEqual(waiting.visits, []);
    turns.accepted();
  }
  await turn();
  turns.accepted();
  await turn();
  assert.deepEqual(waiting.visits, [1], "the flood goes on, and the connection gets its turn");
});

test("after the last connection has come in, work goes on with the next turn", async () => {
  const turns = new Turns(fakeClock());
  turns.accepted();
  const waiting = connection(turns, 1);
  turns.wait(waiting);
  await turn();
  assert.deepEqual(waiting.visits, [], "this turn shows that no further connection came");
  await turn();
  assert.deepEqual(waiting.visits, [1]);
});

test("a new connection goes before those that wait in line", async () => {
  const turns = full();
  const many = Array.from({ length: 8 }, () => connection(turns, MAX_WORK_PER_VISIT));
  for (const each of many) turns.wait(each);
  const newcomer = connection(turns, 1);
  turns.wait(newcomer, true);
  await turn();
  assert.deepEqual(newcomer.visits, [1]);
  assert.deepEqual(
    many.map(({ visits }) => visits.length),
    [1, 1, 1, 1, 0, 0, 0, 0],
  );
});
