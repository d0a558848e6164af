// What every implementation of Store must do. Each calls this with a function that opens an empty store.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Batch, Store } from "#store/store.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const shown = ({ puts, deletes }: Batch) => ({
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
        const watch = store.watch(["/a/", "/c/"], stop.signal)[Symbol.asyncIterator]();
        assert.deepEqual(shown((await watch.next()).value), { puts: ["/a/1=x"], deletes: [] });
        await store.commit([put("/a/2", "y"), drop("/a/1"), put("/c/1", "z"), put("/b/2", "no")]);
        assert.deepEqual(shown((await watch.next()).value), {
          puts: ["/a/2=y", "/c/1=z"],
          deletes: ["/a/1"],
        });
        const ended = watch.next();
        stop.abort();
        assert.equal((await ended).done, true);
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
          const batch: Batch = (await watch.next()).value;
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
        const lease = await store.lease(10_000);
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
      "lets one lead",
      opened(async (store) => {
        const leadership = await store.lead("election", new AbortController().signal);
        assert.equal(leadership.lost.aborted, false);
        await leadership.resign();
      }),
    );
  });
}
