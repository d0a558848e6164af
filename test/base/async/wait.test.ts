// Waits that end in time: pauses, and work that is waited for no longer than a time.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { pause, within } from "#base/async/wait.ts";
import { fakeClock } from "../../kit/clock.ts";

test("a pause ends after its time or with its signal, and leaves nothing behind", async () => {
  const clock = fakeClock();
  const { signal } = new AbortController();
  let over = false;
  const pausing = pause(10, clock, signal).then(() => {
    over = true;
  });
  clock.advance(9);
  await turn();
  assert.equal(over, false);
  clock.advance(1);
  await pausing;
  const stop = new AbortController();
  const stopped = pause(10, clock, stop.signal);
  stop.abort();
  await stopped;
  await pause(10, clock, stop.signal);
  assert.equal(clock.alarms, 0);
  for (const each of [signal, stop.signal]) {
    assert.equal(getEventListeners(each, "abort").length, 0);
  }
});

test("work in time gives its result; late work gives what is said for it, and its failure is ignored", async () => {
  const clock = fakeClock();
  assert.equal(await within(10, clock, Promise.resolve(1), assert.fail), 1);
  await assert.rejects(within(10, clock, Promise.reject(new Error("no"))), /no/);
  assert.equal(clock.alarms, 0);

  const work = Promise.withResolvers<number>();
  const late = within(10, clock, work.promise, () => 2);
  const refused = within(10, clock, work.promise, () => {
    throw new Error("too late");
  });
  const ignored = within(10, clock, work.promise);
  clock.advance(10);
  assert.equal(await late, 2);
  await assert.rejects(refused, /too late/);
  assert.equal(await ignored, undefined);
  work.reject(new Error("nobody waits any more"));
  await turn();
});
