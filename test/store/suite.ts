// The behaviour that every implementation of Store must have. Each calls this with a function that opens an empty
// store.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Entry, Store, StoreUpdate } from "#store/store.ts";
import { until } from "../kit/until.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const shown = ({ puts, deletes }: StoreUpdate) => ({
  puts: puts.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`),
  deletes: [...deletes],
});

export function storeSuite(name: string, open: () => Promise<Store>): void {
  describe(`${name} store`, () => {
    const opened = (work: (store: Store) => Promise<void>) => async () => {
      const store = await open();
      try {
        await work(store);
      } finally {
        await store.close();
      }
    };
    const put = (key: string, value: string) =>
      ({ kind: "put", key, value: bytes(value) }) as const;
    const drop = (key: string) => ({ kind: "delete", key }) as const;

    it(
      "writes several keys in one revision",
      opened(async (store) => {
        const revision = await store.commit([put("/a/1", "x"), put("/a/2", "y"), put("/b", "z")]);
        const { entries, revision: seen } = await store.list("/a/");
        assert.deepEqual(
          entries.map(({ key }) => key),
          ["/a/1", "/a/2"],
        );
        assert.equal(seen, revision);
        assert.ok(entries.every((entry) => entry.revision === revision));
      }),
    );

    it(
      "writes nothing when a guard fails",
      opened(async (store) => {
        const first = await store.commit([put("/k", "1")], {
          guards: [{ key: "/k", revision: 0 }],
        });
        assert.ok(first !== undefined);
        const again = await store.commit([put("/k", "2"), put("/l", "2")], {
          guards: [{ key: "/k", revision: 0 }],
        });
        assert.equal(again, undefined);
        assert.equal((await store.list("/l")).entries.length, 0);
        const next = await store.commit([put("/k", "3")], {
          guards: [{ key: "/k", revision: first }],
        });
        assert.ok(next !== undefined && next > first);
      }),
    );

    it(
      "gives a watcher the whole state first, then each difference as one batch",
      opened(async (store) => {
        await store.commit([put("/a/1", "x"), put("/b/1", "no")]);
        const stop = new AbortController();
        const watch = store.watch(["/a/"], stop.signal)[Symbol.asyncIterator]();
        assert.deepEqual(shown((await watch.next()).value), { puts: ["/a/1=x"], deletes: [] });
        await store.commit([put("/a/2", "y"), drop("/a/1"), put("/a/3", "z"), put("/b/2", "no")]);
        assert.deepEqual(shown((await watch.next()).value), {
          puts: ["/a/2=y", "/a/3=z"],
          deletes: ["/a/1"],
        });
        const ended = watch.next();
        stop.abort();
        assert.equal((await ended).done, true);
      }),
    );

    it(
      "follows several prefixes in one watch",
      opened(async (store) => {
        await store.commit([put("/a/1", "x"), put("/c/1", "x"), put("/b/1", "no")]);
        const stop = new AbortController();
        const watch = store.watch(["/a/", "/c/"], stop.signal)[Symbol.asyncIterator]();
        const first = shown((await watch.next()).value);
        assert.deepEqual(first, { puts: ["/a/1=x", "/c/1=x"], deletes: [] });
        await store.commit([put("/a/2", "y"), drop("/c/1"), put("/b/2", "no")]);
        const seen: string[] = [];
        while (seen.length < 2) {
          const { puts, deletes } = shown((await watch.next()).value);
          seen.push(...puts, ...deletes);
        }
        assert.deepEqual(seen.sort(), ["/a/2=y", "/c/1"]);
        stop.abort();
        await watch.return?.(undefined);
      }),
    );

    it(
      "melts what a slow watcher missed into the net difference",
      opened(async (store) => {
        const stop = new AbortController();
        const watch = store.watch(["/"], stop.signal)[Symbol.asyncIterator]();
        assert.deepEqual(shown((await watch.next()).value), { puts: [], deletes: [] });
        await store.commit([put("/k", "1"), put("/gone", "1")]);
        await store.commit([put("/k", "2"), drop("/gone")]);
        const seen = new Map<string, string>();
        while (seen.get("/k") !== "2") {
          const batch: StoreUpdate = (await watch.next()).value;
          for (const { key, value } of batch.puts) seen.set(key, new TextDecoder().decode(value));
          for (const key of batch.deletes) seen.delete(key);
        }
        assert.deepEqual([...seen], [["/k", "2"]]);
        stop.abort();
        await watch.return?.(undefined);
      }),
    );

    it(
      "takes back a lease's keys when it is revoked",
      opened(async (store) => {
        const lease = await store.lease();
        await store.commit([put("/kept", "1")]);
        await store.commit([put("/leased", "1"), put("/rewritten", "1")], { lease });
        await store.commit([put("/rewritten", "2")]);
        await lease.revoke();
        const { entries } = await store.list("/");
        assert.deepEqual(
          entries.map(({ key }) => key),
          ["/kept", "/rewritten"],
        );
      }),
    );

    it(
      "tells of each entry when it was created and whether it has a lease, in lists and in watches",
      opened(async (store) => {
        const facts = ({ key, created, leased }: Entry) => ({ key, created, leased });
        const stop = new AbortController();
        const watch = store.watch(["/k/"], stop.signal)[Symbol.asyncIterator]();
        await watch.next();
        const lease = await store.lease();
        const created = await store.commit([put("/k/1", "1")], { lease });
        assert.ok(created !== undefined);
        const expect = async (wanted: ReturnType<typeof facts>) => {
          assert.deepEqual(((await watch.next()).value as StoreUpdate).puts.map(facts), [wanted]);
          assert.deepEqual((await store.list("/k/")).entries.map(facts), [wanted]);
        };
        await expect({ key: "/k/1", created, leased: true });
        await store.commit([put("/k/1", "2")]);
        await expect({ key: "/k/1", created, leased: false });
        await store.commit([drop("/k/1")]);
        await watch.next();
        const again = await store.commit([put("/k/1", "3")]);
        assert.ok(again !== undefined && again > created);
        await expect({ key: "/k/1", created: again, leased: false });
        stop.abort();
        await watch.return?.(undefined);
      }),
    );

    it(
      "lets one candidate lead, and the next one when it resigns",
      opened(async (store) => {
        const forever = new AbortController().signal;
        const first = await store.lead("/election", forever, "one");
        let second = false;
        const waiting = store.lead("/election", forever, "two").then((leadership) => {
          second = true;
          return leadership;
        });
        await until("two candidates", async () => (await candidates(store)).length === 2);
        assert.equal(second, false);
        assert.equal(first.lost.aborted, false);
        const { entries } = await store.list("/election/");
        assert.ok(entries.some(({ key }) => key === first.guard.key));
        await first.resign();
        const leadership = await waiting;
        assert.deepEqual(await candidates(store), ["two"]);
        await leadership.resign();
        assert.deepEqual(await candidates(store), []);
      }),
    );

    it(
      "lets no deposed leader write",
      opened(async (store) => {
        const forever = new AbortController().signal;
        const { guard, resign } = await store.lead("/election", forever);
        assert.ok((await store.commit([put("/k", "1")], { guards: [guard] })) !== undefined);
        await resign();
        assert.equal(await store.commit([put("/k", "2")], { guards: [guard] }), undefined);
        const [entry] = (await store.list("/k")).entries;
        assert.equal(new TextDecoder().decode(entry?.value), "1");
      }),
    );

    it(
      "stops being a candidate when the signal aborts",
      opened(async (store) => {
        const { resign } = await store.lead("/election", new AbortController().signal, "one");
        const stop = new AbortController();
        const waiting = store.lead("/election", stop.signal, "two");
        waiting.catch(() => undefined);
        await until("two candidates", async () => (await candidates(store)).length === 2);
        stop.abort();
        await assert.rejects(waiting);
        await until("one candidate", async () => (await candidates(store)).length === 1);
        assert.deepEqual(await candidates(store), ["one"]);
        await resign();
      }),
    );

    it(
      "keeps the last of several operations on one key",
      opened(async (store) => {
        await store.commit([
          put("/k", "1"),
          drop("/k"),
          put("/k", "2"),
          put("/l", "1"),
          drop("/l"),
        ]);
        const { entries } = await store.list("/");
        assert.deepEqual(
          entries.map(({ key, value }) => [key, new TextDecoder().decode(value)]),
          [["/k", "2"]],
        );
      }),
    );

    it(
      "takes the commits of 500 components, more than etcd takes in one transaction",
      opened(async (store) => {
        const stop = new AbortController();
        const watch = store.watch(["/c/"], stop.signal)[Symbol.asyncIterator]();
        await watch.next();
        const first = await store.commit([put("/guard", "1")]);
        assert.ok(first !== undefined);
        const keys = Array.from({ length: 500 }, (_, at) => `/c/${1000 + at}`);
        const guards = [{ key: "/guard", revision: first }];
        // 500 values of 10 kB are more than 1.5 MiB as well. The guard's own key is among them.
        const text = "x".repeat(10_000);
        const puts = [put("/guard", "2"), ...keys.map((key) => put(key, text))];
        const revision = await store.commit(puts, { guards });
        assert.ok(revision !== undefined && revision > first);
        const seen = new Set<string>();
        while (seen.size < 500) {
          for (const { key } of ((await watch.next()).value as StoreUpdate).puts) seen.add(key);
        }
        // Half of them are replaced: what is new is there before what is old goes.
        const later = keys.map((key) => `${key}/later`);
        const change = [
          ...keys.slice(0, 250).map(drop),
          ...later.slice(0, 250).map((key) => put(key, "y")),
        ];
        await store.commit(change);
        let added = 0;
        while (seen.size > 250 || added < 250) {
          const batch: StoreUpdate = (await watch.next()).value;
          added += batch.puts.length;
          assert.ok(batch.deletes.length === 0 || added === 250, "a delete came before a put");
          for (const key of batch.deletes) seen.delete(key);
        }
        const { entries } = await store.list("/c/");
        assert.equal(entries.length, 500);
        assert.equal(await store.commit([put("/no", "1")], { guards }), undefined);
        stop.abort();
        await watch.return?.(undefined);
      }),
    );
  });
}

async function candidates(store: Store): Promise<readonly string[]> {
  const { entries } = await store.list("/election/");
  return entries.map(({ value }) => new TextDecoder().decode(value));
}
