// The secret of a group: made once, found by all, and written again when it was deleted or is damaged.

import assert from "node:assert/strict";
import { test } from "node:test";
import { followSecret, type GroupSecret } from "#counters/peers/membership/secret.ts";
import { memoryStore } from "#store/memory.ts";
import { groupSecretKey } from "#sync/keys.ts";
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
    const options = { store, group: "g", clock: fakeClock(), log, unusable: () => assert.fail() };
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

test("a value that cannot be used is reported once, and replaced by the secret that an agent knows", async (t) => {
  const store = memoryStore();
  const stop = new AbortController();
  const log = memoryLog();
  const clock = fakeClock();
  const key = groupSecretKey("g");
  const put = (length: number) =>
    store.commit([{ kind: "put", key, value: new Uint8Array(length) }]);
  const present = async () => (await store.list(key)).entries[0]?.value;
  const found: Uint8Array[] = [];
  const refused: string[] = [];
  const following = followSecret(
    {
      store,
      group: "g",
      clock,
      log,
      known: ({ bytes }) => void found.push(bytes),
      unusable: (why) => void refused.push(why),
    },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await following;
    assert.equal(clock.alarms, 0);
  });
  await until("a secret is known", () => found.length === 1);
  for (const length of [3, 1_025]) {
    refused.length = 0;
    await put(length);
    await until("it is refused", () => refused.length === 1);
    clock.advance(0);
    await until("it is replaced", async () => (await present())?.length === 32);
    assert.deepEqual(await present(), found[0]);
    assert.equal(
      refused[0],
      `the value of ${key} in etcd cannot be used as the secret of the group: wanted 32 to 1024 bytes, got ${length}`,
    );
    assert.equal(log.lines.at(-1)?.message, `${refused[0]}; the known one replaces it`);
  }
  await put(1_024);
  await until("a usable one is taken", () => found.length === 2);
  assert.equal(found[1]?.length, 1_024);
});

test("agents that know no secret replace an unusable value after others could have, and agree", async (t) => {
  const store = memoryStore();
  const stop = new AbortController();
  const key = groupSecretKey("g");
  await store.commit([{ kind: "put", key, value: new Uint8Array(3) }]);
  const clock = fakeClock();
  const log = memoryLog();
  const found: Uint8Array[][] = [[], []];
  let refused = 0;
  const following = found.map((mine) =>
    followSecret(
      {
        store,
        group: "g",
        clock,
        log,
        known: ({ bytes }) => void mine.push(bytes),
        unusable: () => void refused++,
      },
      stop.signal,
    ),
  );
  t.after(async () => {
    stop.abort();
    await Promise.all(following);
    assert.equal(clock.alarms, 0);
  });
  await until("both refuse it", () => refused === 2);
  clock.advance(4_999);
  await new Promise(setImmediate);
  assert.equal((await store.list(key)).entries[0]?.value.length, 3, "others may know one");
  clock.advance(1);
  await until("both know a secret", () => found.every((mine) => mine.length > 0));
  assert.deepEqual(found[0], found[1]);
  assert.equal(found[0]?.length, 1, "nobody has had another one");
  assert.match(log.lines[0]?.message ?? "", /got 3; a new one replaces it in 5 s$/);
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
            const entry = { key, value: restored, revision: 1, created: 1, leased: false };
            yield { puts: [entry], deletes: [], revision: 1, reset: true };
          }
        },
      },
      group: "g",
      clock: fakeClock(),
      log: memoryLog(),
      known: (secret) => void found.push(secret),
      unusable: () => assert.fail(),
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
