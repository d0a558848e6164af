import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import {
  MAX_ACCEPTS_IN_A_ROW,
  MAX_WORK_PER_TURN,
  MAX_WORK_PER_VISIT,
} from "#serve/transport/limits.ts";
import { Turns } from "#serve/transport/turns.ts";

/** A connection with this much work, which notes what it did in each visit. */
function connection(turns: Turns, units: number) {
  const visits: number[] = [];
  let left = units;
  return {
    visits,
    work(most: number): boolean {
      const done = Math.min(left, most);
      visits.push(done);
      left -= done;
      turns.spend(done);
      return left > 0;
    },
  };
}

test("a turn handles a bounded amount, whichever connections it comes from", async () => {
  const turns = new Turns();
  for (let left = MAX_WORK_PER_TURN; left > 0; left -= MAX_WORK_PER_VISIT) {
    assert.equal(turns.allowance, MAX_WORK_PER_VISIT);
    turns.spend(MAX_WORK_PER_VISIT);
  }
  assert.equal(turns.allowance, 0, "the turn is over");
  await turn();
  assert.equal(turns.allowance, MAX_WORK_PER_VISIT, "the next turn begins");
});

test("connections in line take turns, in order, and nobody overtakes them", async () => {
  const turns = new Turns();
  turns.spend(MAX_WORK_PER_TURN);
  const many = Array.from({ length: 6 }, () => connection(turns, 2 * MAX_WORK_PER_VISIT));
  for (const each of many) turns.wait(each);
  const visited = () => many.map(({ visits }) => visits.length);
  await turn();
  assert.deepEqual(visited(), [1, 1, 1, 1, 0, 0]);
  assert.equal(turns.allowance, 0, "others wait behind them");
  await turn();
  assert.deepEqual(visited(), [2, 2, 1, 1, 1, 1]);
  await turn();
  assert.deepEqual(visited(), [2, 2, 2, 2, 2, 2]);
  await turn();
  assert.equal(turns.allowance, MAX_WORK_PER_VISIT);
});

test("while connections come in, turns only accept; but not for ever", async () => {
  const turns = new Turns();
  turns.accepted();
  assert.equal(turns.allowance, 0);
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
  const turns = new Turns();
  turns.accepted();
  const waiting = connection(turns, 1);
  turns.wait(waiting);
  await turn();
  assert.deepEqual(waiting.visits, [], "this turn shows that no further connection came");
  await turn();
  assert.deepEqual(waiting.visits, [1]);
});

test("a new connection goes before those that wait in line", async () => {
  const turns = new Turns();
  turns.spend(MAX_WORK_PER_TURN);
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
