// The keys that a candidate leaves in etcd when it is stopped, over a client whose answers the test decides.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EtcdClient } from "#store/etcd/client.ts";
import { Keys } from "#store/etcd/keys.ts";
import { lead } from "#store/etcd/lease/election.ts";
import { fakeClock } from "../../kit/clock.ts";

test("a candidate that is stopped as it wins takes its key back", async () => {
  const clock = fakeClock();
  const stop = new AbortController();
  const called: string[] = [];
  const calls = {
    grant: () => ({ id: 7n, ttl: 3n }),
    txn: () => ({ succeeded: true, header: { revision: 1n }, responses: [] }),
    range: () => {
      // The answer that makes it the leader is on its way.
      stop.abort();
      return { kvs: [] };
    },
    revoke: ({ id }: { id: bigint }) => assert.equal(id, 7n),
  };
  const client = {
    isAway: false,
    pause: async () => undefined,
    call: async (method: keyof typeof calls, request: never) => {
      called.push(method);
      return calls[method](request);
    },
  };
  const leading = lead({
    client: client as unknown as EtcdClient,
    keys: new Keys(""),
    clock,
    ttlMs: 3_000,
    name: "/election",
    candidate: "one",
    signal: stop.signal,
    changes: async function* () {
      yield undefined;
    },
  });
  await assert.rejects(leading, { name: "AbortError" });
  assert.deepEqual(called, ["grant", "txn", "range", "revoke"]);
  assert.equal(clock.alarms, 0, "its lease is no longer renewed");
});
