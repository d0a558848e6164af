// The number of keys that an agent counts for its group is bounded, and keys that have expired or are not asked about
// make room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OwnedLimiters } from "#counters/peers/owned-limiters.ts";
import type { OwnedSlots } from "#counters/peers/owned-slots.ts";
import { SlotEnds } from "#counters/slot-ends.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { TEN_PER_SECOND } from "../../flow/counters/suite.ts";
import { fakeClock } from "../../kit/clock.ts";

/** The most slots of all limiters together. */
const MAX_KEYS = 65_536;
const LIMIT = { max: 1_024, maxInflightMs: 60_000 };
const named = (name: string) => ({ policyName: "policy", name });

function opened() {
  const clock = fakeClock();
  const owned = new OwnedLimiters({ clock, observer: NO_OBSERVER, maxKeys: 10_000 }, [1, 2]);
  return { clock, owned };
}

/** Fills the table with slots of one limiter, under as many keys as it takes. */
function fill(slots: OwnedSlots, limiter: string, now: number): void {
  for (let n = 0; n < MAX_KEYS; n++) {
    const key = { limiter: slots.known(named(limiter)), lo: 1 + (n >> 10), hi: 1 };
    assert.equal(slots.take(key, 1, `${limiter}-${n}`, LIMIT, now).outcome, "granted");
  }
}

test("expired slots of a limiter that nobody asks about make room for those of another", () => {
  const { clock, owned } = opened();
  fill(owned.slots, "a", clock.now());
  const key = { limiter: owned.slots.plan(named("b")), lo: 1, hi: 1 };
  const ask = () => owned.slots.take(key, 1, "b", LIMIT, clock.now());
  assert.equal(ask().full, true);
  // Not so far that the regular sweep frees them.
  clock.advance(59_000);
  assert.equal(ask().full, true, "nothing has expired");
  owned.close();
  clock.advance(1_000);
  assert.equal(ask().outcome, "granted");
  assert.equal(owned.slots.count, 1);
});

test("expired slots make room for those that another agent hands over", () => {
  const { clock, owned } = opened();
  owned.close();
  fill(owned.slots, "a", clock.now());
  clock.advance(60_000);
  const limiter = owned.slots.known(named("b"));
  limiter.slots = LIMIT;
  owned.slots.adopt({ limiter, lo: 1, hi: 1, id: "b", tokens: 1, start: clock.now() });
  assert.equal(
    owned.slots.end(
      { key: { limiter, lo: 1, hi: 1 }, id: "b", lifeMs: 60_000, unused: false },
      clock.now(),
    ),
    true,
  );
});

test("expired slots are freed regularly, also those of limiters outside of the plan", () => {
  const { clock, owned } = opened();
  fill(owned.slots, "a", clock.now());
  clock.advance(120_000);
  assert.equal(owned.slots.count, 0);
  owned.close();
  assert.equal(clock.alarms, 0);
});

test("a limiter that is in no plan here is forgotten ten minutes after it was last asked about", () => {
  const { clock, owned } = opened();
  owned.known(named("foreign"))?.agree(TEN_PER_SECOND);
  const planned = owned.plan(named("own"));
  clock.advance(540_000);
  assert.equal(owned.count, 2);
  owned.known(named("foreign"));
  clock.advance(540_000);
  assert.equal(owned.count, 2);
  clock.advance(120_000);
  assert.deepEqual([...owned.all], [planned]);
  owned.unplan(planned);
  clock.advance(660_000);
  assert.equal(owned.count, 0);
  owned.close();
});

test("the numbers of this agent's own plan count, whatever others ask by; without a plan theirs do", () => {
  const { owned } = opened();
  const theirs = { ...TEN_PER_SECOND, capacity: 99 };
  const limiter = owned.plan(named("a"));
  assert.equal(limiter.agree(TEN_PER_SECOND), TEN_PER_SECOND, "the first are taken on");
  assert.equal(limiter.agree(theirs), TEN_PER_SECOND);
  assert.equal(limiter.params, TEN_PER_SECOND);
  owned.unplan(limiter);
  assert.equal(limiter.agree(theirs), theirs);
  assert.equal(limiter.params, theirs);
  owned.close();
});

test("ends that were kept are sent with the latest first: its slot would be taken for longest", () => {
  let away = true;
  const sent: string[] = [];
  const ask = ({ id }: { readonly id: string }, answered: (ended: boolean) => void) => {
    if (away) return false;
    sent.push(id);
    answered(true);
    return true;
  };
  const ends = new SlotEnds(ask, { clock: fakeClock(), most: 10 });
  for (const id of ["first", "second", "third"]) ends.end("key", id, LIMIT, false);
  assert.deepEqual(sent, []);
  away = false;
  ends.resume();
  assert.deepEqual(sent, ["third", "second", "first"]);
});

test("the end of a slot that is sent again and again counts as kept once", () => {
  const asked: ((ended: boolean | undefined) => void)[] = [];
  const ask = (_end: unknown, answered: (ended: boolean | undefined) => void) =>
    asked.push(answered) > 0;
  const ends = new SlotEnds(ask, { clock: fakeClock(), most: 10 });
  ends.end("key", "id", LIMIT, false);
  for (let times = 0; times < 5; times++) {
    asked.pop()?.(undefined);
    ends.resume();
  }
  assert.equal(asked.length, 1);
  assert.deepEqual(ends.counts, { kept: 1, dropped: 0 });
});
