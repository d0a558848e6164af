// The secret of a group: made once, found by all, and written again when it was deleted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import { groupSecretKey } from "#sync/keys.ts";
import { followSecret, type GroupSecret } from "../../../src/fleet/peers/membership/secret.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

test("agents that start together find one secret, and keep it when it is deleted", async (t) => {
  const store = memoryStore();
  const stop = new AbortController();
  const known = new Map<number, GroupSecret[]>();
  const log = memoryLog();
  const following = [1, 2, 3].map((agent) => {
    const found: GroupSecret[] = [];
    known.set(agent, found);
    const options = { store, group: "g", clock: fakeClock(), log };
    return followSecret({ ...options, known: (secret) => found.push(secret) }, stop.signal);
  });
  t.after(async () => {
    stop.abort();
    await Promise.all(following);
  });
  const all = () => [...known.values()].flatMap((found) => found.at(-1) ?? []);
  await until("all know a secret", () => all().length === 3);
  const [first, ...others] = all();
  assert.equal(first?.bytes.length, 32);
  for (const other of others) assert.deepEqual(other.bytes, first?.bytes);
  assert.notDeepEqual(first?.probes, first?.connections.key, "each use has a key of its own");

  const key = groupSecretKey("g");
  await store.commit([{ kind: "delete", key }]);
  await until("it is there again", async () => (await store.list(key)).entries.length === 1);
  assert.deepEqual((await store.list(key)).entries[0]?.value, first?.bytes);
  for (const found of known.values()) assert.equal(found.length, 1, "nobody has another one");

  const value = new Uint8Array(32).fill(7);
  await store.commit([{ kind: "put", key, value }]);
  await until("all have the new one", () => all().every(({ bytes }) => bytes[0] === 7));
  assert.ok(log.lines.some(({ message }) => /has changed: counts start anew/.test(message)));
});

test("a secret that cannot be used is refused, once in the log, and what was known stays in use", async (t) => {
  const store = memoryStore();
  const stop = new AbortController();
  const log = memoryLog();
  const key = groupSecretKey("g");
  const put = (length: number) =>
    store.commit([{ kind: "put", key, value: new Uint8Array(length) }]);
  await put(3);
  const found: number[] = [];
  const known = ({ bytes }: GroupSecret) => void found.push(bytes.length);
  const following = followSecret(
    { store, group: "g", clock: fakeClock(), log, known },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await following;
  });
  const said = () => log.lines.map(({ message }) => message);
  const refused = `the value of ${key} in etcd cannot be used as the secret of the group: wanted 32 to 1024 bytes`;
  await until("it is refused", () => said().length > 0);
  await put(4);
  await put(40);
  await until("a good one is known", () => found.length === 1);
  assert.deepEqual(said(), [`${refused}, got 3; no secret is known yet`]);
  await put(1_025);
  await until("a long one is refused", () => said().length > 1);
  await put(1_024);
  await until("the next one is known", () => found.length === 2);
  assert.deepEqual(found, [40, 1_024]);
  assert.equal(said()[1], `${refused}, got 1025; the secret that was known stays in use`);
});

test("the secret of a restored backup wins over that which agents know", async (t) => {
  const store = memoryStore();
  const stop = new AbortController();
  const key = groupSecretKey("g");
  const restored = new Uint8Array(32).fill(9);
  const batches = Promise.withResolvers<void>();
  const found: GroupSecret[] = [];
  const following = followSecret(
    {
      store: {
        commit: store.commit.bind(store),
        // A store that lost its data and was restored from a backup sends this.
        async *watch(prefixes, signal) {
          for await (const batch of store.watch(prefixes, signal)) {
            yield batch;
            await batches.promise;
            const entry = { key, value: restored, revision: 1 };
            yield { puts: [entry], deletes: [], revision: 1, reset: true };
          }
        },
      },
      group: "g",
      clock: fakeClock(),
      log: memoryLog(),
      known: (secret) => void found.push(secret),
    },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await following;
  });
  await until("the first is known", () => found.length === 1);
  const written = await store.list(key);
  batches.resolve();
  await until("the other one is known", () => found.length === 2);
  assert.deepEqual(found[1]?.bytes, restored);
  assert.deepEqual(await store.list(key), written, "nobody writes the first one again");
});
