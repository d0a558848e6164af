// Callers that wait until a revision of the store is in force.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreFollower, type StoreFollowerOptions } from "#controller/store-follower.ts";
import { memoryStore } from "#store/memory.ts";

test("a caller that gives up is forgotten, and the others go on waiting", async () => {
  const unused: unknown = {};
  const follower = new StoreFollower({
    ...(unused as StoreFollowerOptions),
    store: memoryStore(),
    failed: () => assert.fail(),
  });
  const given = new AbortController();
  const impatient = follower.reached(5, given.signal);
  const patient = follower.reached(5, new AbortController().signal);
  assert.equal(follower.waiting, 2);
  given.abort();
  await impatient;
  assert.equal(follower.waiting, 1);
  await follower.reached(5, given.signal);
  follower.stop();
  await patient;
  assert.equal(follower.waiting, 0);
});
