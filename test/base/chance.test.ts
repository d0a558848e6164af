import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance, uuid } from "#base/chance.ts";

test("ids are version 4 UUIDs and do not repeat", () => {
  const chance = seededChance(7);
  const ids = new Set(Array.from({ length: 1_000 }, () => uuid(chance)));
  assert.equal(ids.size, 1_000);
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
});

test("the same seed gives the same numbers, another seed gives others", () => {
  const roll = (seed: number) => Array.from({ length: 5 }, seededChance(seed));
  assert.deepEqual(roll(1), roll(1));
  assert.notDeepEqual(roll(1), roll(2));
  const many = Array.from({ length: 10_000 }, seededChance(3));
  assert.ok(many.every((rolled) => rolled >= 0 && rolled < 1));
  const mean = many.reduce((sum, rolled) => sum + rolled, 0) / many.length;
  assert.ok(Math.abs(mean - 0.5) < 0.02, `mean ${mean}`);
});
