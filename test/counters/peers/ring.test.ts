// The assignment of keys to members: keys are spread evenly, and a member that joins or leaves moves only its own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Ring } from "#counters/peers/membership/ring.ts";

const member = (at: number) => ({
  name: `10.0.0.${at}:8080`,
  id: `process-${at}`,
  address: `10.0.0.${at}:3320`,
  probe: undefined,
});
const members = (count: number) => Array.from({ length: count }, (_, at) => member(at));

const chance = seededChance(7);
const word = () => Math.floor(chance() * 2 ** 32);
const KEYS = Array.from({ length: 20_000 }, () => [word(), word()] as const);

test("keys are spread evenly", () => {
  for (const count of [2, 3, 10, 50]) {
    const ring = new Ring(members(count));
    const owned = new Array(count).fill(0);
    for (const [lo, hi] of KEYS) owned[ring.owner(lo, hi)]++;
    const fair = KEYS.length / count;
    for (const each of owned) assert.ok(Math.abs(each - fair) < 6 * Math.sqrt(fair), `${owned}`);
  }
});

test("the second keys of one member are spread over all others", () => {
  const ring = new Ring(members(5));
  const seconds = new Map<string, number>();
  for (const [lo, hi] of KEYS) {
    const [first, second] = ring.first(2, lo, hi);
    if (first?.id === "process-0")
      seconds.set(second?.id ?? "", (seconds.get(second?.id ?? "") ?? 0) + 1);
  }
  assert.equal(seconds.size, 4);
  for (const count of seconds.values()) assert.ok(count > 800 && count < 1_200, `${[...seconds]}`);
});

test("a member that joins takes only keys that are its own, in whatever order all are listed", () => {
  const before = new Ring(members(5));
  const after = new Ring(members(6).toReversed());
  let moved = 0;
  for (const [lo, hi] of KEYS) {
    const [from, to] = [before.members[before.owner(lo, hi)], after.members[after.owner(lo, hi)]];
    if (from?.id === to?.id) continue;
    moved++;
    assert.equal(to?.id, "process-5");
    assert.deepEqual(after.first(2, lo, hi)[1], from, "who follows is who counted before");
  }
  assert.ok(moved > 0.8 * (KEYS.length / 6) && moved < 1.2 * (KEYS.length / 6), `${moved}`);
});

test("the first members are those that own the key one after the other", () => {
  const ring = new Ring(members(7));
  for (const [lo, hi] of KEYS.slice(0, 500)) {
    const left = ring.members.map(() => true);
    const owners = ring.members.map(() => {
      const owner = ring.owner(lo, hi, left);
      left[owner] = false;
      return ring.members[owner];
    });
    assert.equal(new Set(owners).size, 7);
    assert.equal(owners[0], ring.members[ring.owner(lo, hi)]);
    assert.equal(ring.owner(lo, hi, left), -1, "none is left");
    for (const count of [1, 2, 3, 7, 10])
      assert.deepEqual(ring.first(count, lo, hi), owners.slice(0, count));
  }
  assert.equal(new Ring([]).owner(1, 2), -1);
  assert.deepEqual(new Ring([]).first(2, 1, 2), []);
});
