import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Unseen } from "#store/etcd/watch/unseen.ts";
import type { Entry } from "#store/store.ts";

const VALUE = new Uint8Array();

function entry(key: string, revision: number): Entry {
  return { key, revision, value: VALUE, created: revision, leased: false };
}

/** A reader's view, as `key=revision`, with what it was told last. */
function seen(unseen: Unseen) {
  const batch = unseen.take();
  if (batch === undefined) return undefined;
  const puts = batch.puts.map(({ key, revision }) => `${key}=${revision}`);
  return { ...batch, puts };
}

/** That has delivered keys `a` and `b` of revision 1. */
function started(): Unseen {
  const unseen = new Unseen();
  for (const key of ["b", "a"]) unseen.put(entry(key, 1));
  unseen.reached(1, "listed");
  assert.deepEqual(seen(unseen), { revision: 1, puts: ["a=1", "b=1"], deletes: [] });
  return unseen;
}

test("the first state is delivered even if it is empty, later ones only if they differ", () => {
  const unseen = new Unseen();
  assert.equal(seen(unseen), undefined, "nothing has been listed");
  unseen.reached(5, "changed");
  assert.equal(seen(unseen), undefined);
  const empty = new Unseen();
  empty.reached(5, "listed");
  assert.deepEqual(seen(empty), { revision: 5, puts: [], deletes: [] });
  empty.reached(6, "listed");
  assert.equal(seen(empty), undefined);
  assert.equal(empty.revision, 6);
});

test("what came and went between two batches is in none of them", () => {
  const unseen = started();
  unseen.put(entry("new", 2));
  unseen.delete("new");
  unseen.put(entry("a", 3));
  unseen.put(entry("a", 4));
  unseen.delete("b");
  unseen.reached(4, "changed");
  assert.deepEqual([...unseen.keys()], ["a"]);
  assert.deepEqual(seen(unseen), { revision: 4, puts: ["a=4"], deletes: ["b"] });
  assert.equal(seen(unseen), undefined);
  unseen.delete("b");
  assert.equal(seen(unseen), undefined, "what the reader does not have need not be taken away");
});

test("an entry that is again what the reader has is no change", () => {
  const unseen = started();
  unseen.delete("a");
  unseen.put(entry("a", 1));
  assert.equal(seen(unseen), undefined);
});

test("an entry differs from what the reader has or is about to get", () => {
  const unseen = started();
  unseen.put(entry("a", 2));
  unseen.delete("b");
  for (const [key, revision, differs] of [
    ["a", 2, false],
    ["a", 1, true],
    ["b", 1, true],
    ["c", 1, true],
  ] as const)
    assert.equal(unseen.differs(entry(key, revision)), differs, `${key}=${revision}`);
  assert.equal(started().differs(entry("b", 1)), false);
});

test("the newest key that exists is known, delivered or not", () => {
  assert.equal(new Unseen().newest(), undefined);
  const unseen = started();
  unseen.put(entry("b", 7));
  unseen.put(entry("c", 5));
  assert.deepEqual(unseen.newest(), { key: "b", revision: 7 });
  unseen.delete("b");
  assert.deepEqual(unseen.newest(), { key: "c", revision: 5 });
  unseen.delete("c");
  assert.deepEqual(unseen.newest(), { key: "a", revision: 1 });
});

test("a state that does not follow is delivered whole, also if it looks the same or is empty", () => {
  const unseen = started();
  unseen.put(entry("brief", 2));
  unseen.reset();
  assert.equal(unseen.differs(entry("a", 1)), true, "its revisions are those of another store");
  unseen.put(entry("a", 1));
  unseen.delete("b");
  unseen.reached(1, "listed");
  assert.deepEqual(seen(unseen), { revision: 1, puts: ["a=1"], deletes: ["b"], reset: true });
  assert.equal(seen(unseen), undefined, "once");
  const gone = started();
  gone.put(entry("a", 2));
  gone.reset();
  assert.deepEqual(seen(gone), { revision: 1, puts: ["a=2"], deletes: [], reset: true });
  const empty = new Unseen();
  empty.reached(1, "listed");
  empty.take();
  empty.reset();
  empty.reached(1, "listed");
  assert.deepEqual(seen(empty), { revision: 1, puts: [], deletes: [], reset: true });
});

test("whatever changes, a reader that takes batches has the present state", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  const step = fc.oneof(
    fc.record({ put: key }),
    fc.record({ drop: key }),
    fc.constant({ take: true }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const unseen = new Unseen();
      const present = new Map<string, number>();
      const reader = new Map<string, number>();
      let revision = 1;
      unseen.reached(revision, "listed");
      const take = () => {
        const batch = unseen.take();
        for (const { key: put, revision: of } of batch?.puts ?? []) {
          assert.notEqual(reader.get(put), of, "each put is news");
          reader.set(put, of);
        }
        for (const gone of batch?.deletes ?? []) assert.ok(reader.delete(gone), "and each delete");
        assert.deepEqual(new Map([...reader].sort()), new Map([...present].sort()));
      };
      for (const each of steps) {
        revision += 1;
        if ("put" in each) {
          present.set(each.put, revision);
          unseen.put(entry(each.put, revision));
        } else if ("drop" in each) {
          present.delete(each.drop);
          unseen.delete(each.drop);
        } else take();
        unseen.reached(revision, "changed");
        assert.deepEqual([...unseen.keys()].sort(), [...present.keys()].sort());
        assert.equal(
          unseen.newest()?.revision,
          present.size === 0 ? undefined : Math.max(...present.values()),
        );
      }
      take();
    }),
  );
});
