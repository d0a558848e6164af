import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import { LeasedKeys } from "#store/leased-keys.ts";
import type { Lease, Op } from "#store/store.ts";
import { fakeClock } from "../kit/clock.ts";
import { memoryLog } from "../kit/sluice/log.ts";

const AWAY = new Fault("UNAVAILABLE", "the store is away");

/** Leased keys in a store that answers when the test says so, with a fault or without. */
function leasedKeys() {
  const clock = fakeClock();
  const log = memoryLog();
  const { lines } = log;
  const events: string[] = [];
  const waiting: ((fault?: Fault) => void)[] = [];
  const asked = <T>(event: string, value: T): Promise<T> => {
    events.push(event);
    return new Promise((resolve, reject) => {
      waiting.push((fault) => (fault === undefined ? resolve(value) : reject(fault)));
    });
  };
  const lease: Lease = {
    revoke: () => asked("revoke", undefined),
    release: (key) => void events.push(`release ${key}`),
  };
  const keys = new LeasedKeys({
    store: {
      lease: () => asked("lease", lease),
      commit: (ops: readonly Op[], options = {}) => {
        assert.equal(options.lease, lease);
        return asked(ops.map(({ kind, key }) => `${kind} ${key}`).join(), 1);
      },
    },
    clock,
    log,
    written: (fault) => void events.push(fault?.message ?? "written"),
  });
  return {
    keys,
    clock,
    events,
    lines,
    put: (key: string) => keys.put(key, new Uint8Array()),
    async answer(fault?: Fault) {
      await turn();
      const [next] = waiting.splice(0, 1);
      assert.ok(next !== undefined, "the store was asked");
      next(fault);
      await turn();
    },
  };
}

/** With one key in the store. */
async function started() {
  const made = leasedKeys();
  made.put("/a");
  await made.answer();
  await made.answer();
  assert.deepEqual(made.events.splice(0), ["lease", "put /a", "written"]);
  return made;
}

test("writes of one turn are one commit, the last one of each key", async () => {
  const { keys, put, events, answer } = leasedKeys();
  put("/a");
  put("/b");
  keys.delete("/a");
  await answer();
  await answer();
  assert.deepEqual(events, ["lease", "delete /a,put /b", "written"]);
});

test("what changes while the store writes follows in the next commit, under the same lease", async () => {
  const { put, events, answer, clock } = await started();
  put("/b");
  await turn();
  put("/c");
  put("/d");
  await answer();
  await answer();
  assert.deepEqual(events, ["put /b", "written", "put /c,put /d", "written"]);
  assert.equal(clock.alarms, 0);
});

test("a failed write is repeated after a second, with what was newer meanwhile; the log says so once", async () => {
  const { put, keys, events, answer, clock, lines } = await started();
  put("/b");
  put("/c");
  await turn();
  keys.delete("/b");
  await answer(AWAY);
  put("/d");
  await turn();
  assert.deepEqual(
    events.splice(0),
    ["put /b,put /c", AWAY.message],
    "nothing is written before its time",
  );
  clock.advance(999);
  await turn();
  assert.deepEqual(events, []);
  clock.advance(1);
  await answer(AWAY);
  assert.deepEqual(events.splice(0), ["delete /b,put /c,put /d", AWAY.message]);
  clock.advance(1_000);
  await answer();
  assert.deepEqual(events, ["delete /b,put /c,put /d", "written"]);
  assert.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [["warn", `the keys of this process cannot be written yet: ${AWAY.message}`]],
  );
  put("/e");
  await answer(AWAY);
  assert.equal(lines.length, 2, "a new failure is a new line");
});

test("a lease that was not granted is asked for again", async () => {
  const { put, events, answer, clock } = leasedKeys();
  put("/a");
  await answer(AWAY);
  clock.advance(1_000);
  await answer();
  await answer();
  assert.deepEqual(events, ["lease", AWAY.message, "lease", "put /a", "written"]);
});

test("closing revokes the lease after the write in progress, and writes nothing more", async () => {
  const { keys, put, events, answer, clock } = await started();
  put("/b");
  await turn();
  put("/c");
  const closed = keys.close();
  put("/d");
  await answer();
  await answer();
  await closed;
  assert.deepEqual(events, ["put /b", "written", "revoke"]);
  assert.equal(clock.alarms, 0);
});

test("closing ends the wait for the next attempt", async () => {
  const { keys, put, events, answer, clock } = await started();
  put("/b");
  await answer(AWAY);
  const closed = keys.close();
  await answer();
  await closed;
  assert.equal(clock.alarms, 0);
  clock.advance(10_000);
  await turn();
  assert.deepEqual(events, ["put /b", AWAY.message, "revoke"]);
});

test("a write that fails while the keys are closed is not repeated or reported", async () => {
  const { keys, put, events, answer, clock, lines } = await started();
  put("/b");
  await turn();
  const closed = keys.close();
  await answer(AWAY);
  await answer();
  await closed;
  assert.deepEqual([events, lines, clock.alarms], [["put /b", "revoke"], [], 0]);
});

test("closing waits half a second for a store that does not answer, and survives one that refuses", async () => {
  const silent = await started();
  let ended = false;
  const closed = silent.keys.close().then(() => {
    ended = true;
  });
  silent.clock.advance(499);
  await turn();
  assert.equal(ended, false);
  silent.clock.advance(1);
  await closed;
  const refusing = await started();
  const close = refusing.keys.close();
  await refusing.answer(AWAY);
  await close;
  const never = leasedKeys();
  await never.keys.close();
  assert.deepEqual([never.events, never.clock.alarms], [[], 0], "there is no lease to revoke");
});
