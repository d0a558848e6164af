// Members whose records have gone from the store stay members for a while.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Lingering } from "#counters/peers/membership/lingering.ts";
import type { RingMember } from "#counters/peers/membership/ring.ts";
import { fakeClock } from "../../kit/clock.ts";

const member = (name: string, id = name): RingMember => ({
  name,
  id,
  address: name,
  probe: undefined,
});
const [ann, bob] = [member("ann"), member("bob")];

function lingering() {
  const clock = fakeClock();
  const ended = new Set<string>();
  let stored: readonly RingMember[] = [];
  let ids: readonly string[] = [];
  const follow = () => {
    ids = members.withLingering(stored).map(({ id }) => id);
  };
  const heard = new Set<string>();
  const members = new Lingering({
    clock,
    hasEnded: (id) => ended.has(id),
    answers: (id) => heard.has(id),
    changed: follow,
  });
  const store = (...list: readonly RingMember[]) => {
    stored = list;
    follow();
    return ids;
  };
  return { clock, ended, heard, members, store, ids: () => ids };
}

test("a silent member whose record has gone stays for five seconds, and longer if it is back by then", () => {
  const { clock, store, ids } = lingering();
  assert.deepEqual(store(ann, bob), ["ann", "bob"]);
  assert.deepEqual(store(), ["ann", "bob"], "an empty store is no reason to count alone");
  clock.advance(4_000);
  assert.deepEqual(store(bob), ["bob", "ann"]);
  clock.advance(999);
  assert.deepEqual(ids(), ["bob", "ann"]);
  clock.advance(1);
  assert.deepEqual(ids(), ["bob"], "from when it went, however often the list changed since");
  clock.advance(60_000);
  assert.deepEqual(ids(), ["bob"]);
});

test("a member that answers stays for thirty seconds, and goes soon when it does not any more", () => {
  const { clock, heard, store, ids } = lingering();
  store(ann, bob);
  for (const id of ["ann", "bob"]) heard.add(id);
  store();
  for (let second = 1; second < 30; second++) {
    clock.advance(1_000);
    if (second === 10) heard.delete("ann");
    assert.deepEqual(ids(), second < 11 ? ["ann", "bob"] : ["bob"], `after ${second} s`);
  }
  clock.advance(1_000);
  assert.deepEqual(ids(), []);
});

test("a member goes at once when it has said so, or when another process has its name", () => {
  const { ended, store } = lingering();
  store(ann, bob);
  ended.add("ann");
  assert.deepEqual(store(bob), ["bob"]);
  const again = member("bob", "another process");
  assert.deepEqual(store(again), ["another process"]);
});

test("nobody stays when all are to be forgotten", () => {
  const { members, store } = lingering();
  store(ann, bob);
  members.clear();
  assert.deepEqual(store(ann), ["ann"]);
});
