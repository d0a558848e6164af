import assert from "node:assert/strict";
import { test } from "node:test";
import { Episodes } from "#base/async/episodes.ts";
import { fakeClock } from "../../kit/clock.ts";

test("a repeated event is reported once at its start and once at its end", () => {
  const clock = fakeClock();
  const told: string[] = [];
  const episodes = new Episodes({
    clock,
    quietMs: 1_000,
    began: (name) => void told.push(`${name} began`),
    ended: (name, times) => void told.push(`${name} ended after ${times}`),
  });
  for (let at = 0; at < 5; at++) {
    episodes.happened("a");
    clock.advance(900);
  }
  episodes.happened("b");
  assert.deepEqual(told, ["a began", "b began"]);
  assert.deepEqual([...episodes.open], ["a", "b"]);
  clock.advance(100);
  assert.deepEqual(told.slice(2), ["a ended after 5"]);
  clock.advance(900);
  assert.deepEqual(told.slice(3), ["b ended after 1"]);
  assert.deepEqual([clock.alarms, ...episodes.open], [0]);
  episodes.happened("a");
  assert.deepEqual(told.slice(4), ["a began"]);
  episodes.close();
  episodes.happened("c");
  assert.equal(clock.alarms, 0);
  assert.deepEqual(told.slice(5), []);
});
