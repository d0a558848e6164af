// Following keys of the store: faults of the store and faults of the follower are told apart.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { type FollowStoreOptions, followStore } from "#fleet/follow-store.ts";
import type { Store } from "#store/store.ts";
import { fakeClock } from "../kit/clock.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";

function follow(watch: Store["watch"], apply: FollowStoreOptions["apply"]) {
  const [log, clock] = [memoryLog(), fakeClock()];
  const { signal } = new AbortController();
  const options = { store: { watch }, prefixes: ["/a/"], what: "the keys", apply };
  const ended = followStore({ ...options, clock, log, signal });
  return {
    ended,
    clock,
    lines: () => log.lines.map(({ level, message }) => `${level}: ${message}`),
  };
}

const batch = (revision: number) => ({ revision, puts: [], deletes: [] });

test("a batch that cannot be applied is logged, and the store is followed on", async () => {
  const applied: number[] = [];
  let watches = 0;
  const { ended, lines } = follow(
    async function* () {
      watches++;
      yield batch(1);
      yield batch(2);
    },
    ({ revision }) => {
      if (revision === 1) throw new Fault("INVALID_ARGUMENT", "a bad record");
      applied.push(revision);
    },
  );
  await ended;
  assert.deepEqual(applied, [2]);
  assert.equal(watches, 1, "the store is not asked again");
  assert.deepEqual(lines(), ["error: a change of the keys could not be applied"]);
});

test("a store that refuses is asked again", async () => {
  const applied: number[] = [];
  let refuses = true;
  const { ended, clock, lines } = follow(
    async function* () {
      if (refuses) throw new Fault("PERMISSION_DENIED", "no right to read");
      yield batch(1);
    },
    ({ revision }) => void applied.push(revision),
  );
  await until("it is refused", () => clock.alarms === 1);
  refuses = false;
  clock.advance(5_000);
  await ended;
  assert.deepEqual(applied, [1]);
  assert.deepEqual(lines(), ["warn: the keys cannot be read from the store: no right to read"]);
});
