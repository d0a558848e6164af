import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SharedPlaces } from "#base/shared-places.ts";

/** Takes as many places as there are for one owner. */
function fill(places: SharedPlaces, owner: string): number {
  let taken = 0;
  for (; places.hasRoomFor(owner); taken++) places.take(owner);
  return taken;
}

test("one owner gets half of the places, and a later one half of the others", () => {
  const places = new SharedPlaces(100);
  assert.equal(fill(places, "first"), 50);
  assert.equal(fill(places, "second"), 25);
  assert.equal(places.count, 75);
  assert.ok(places.hasRoomFor("third"));
  for (let at = 0; at < 50; at++) places.giveBack("first");
  assert.equal(places.count, 25);
  assert.equal(fill(places, "second"), 25);
  assert.equal(fill(places, "first"), 25);
});

test("owners that give back and take again come to equal shares, and one more place than owners have is free", () => {
  const places = new SharedPlaces(1_000);
  const owners = ["a", "b", "c", "d"];
  const held = new Map(owners.map((owner) => [owner, fill(places, owner)]));
  for (let round = 0; round < 500; round++) {
    for (const owner of owners) {
      places.giveBack(owner);
      held.set(owner, (held.get(owner) ?? 0) - 1 + fill(places, owner));
    }
  }
  for (const owner of owners) assert.equal(held.get(owner), 200, owner);
});

test("there are never more than the most, and counts come back to nothing", () => {
  const step = fc.record({ owner: fc.constantFrom("a", "b", "c"), takes: fc.boolean() });
  const property = fc.property(fc.nat(20), fc.array(step), (most, steps) => {
    const places = new SharedPlaces(most);
    const held: string[] = [];
    for (const { owner, takes } of steps) {
      const at = held.indexOf(owner);
      if (takes && places.hasRoomFor(owner)) {
        places.take(owner);
        held.push(owner);
      } else if (!takes && at >= 0) {
        places.giveBack(owner);
        held.splice(at, 1);
      }
      assert.equal(places.count, held.length);
      assert.equal(places.owners, new Set(held).size);
      assert.ok(held.length <= most);
    }
    for (const owner of held) places.giveBack(owner);
    assert.equal(places.hasRoomFor("a"), most > 0);
    assert.equal(places.count, 0);
  });
  fc.assert(property);
});
