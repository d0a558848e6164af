import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Entry } from "#store/store.ts";
import { Undelivered } from "#store/undelivered.ts";

const VALUE = new Uint8Array();

function entry(key: string, revision: number): Entry {
  return { key, revision, value: VALUE, created: revision, leased: false };
}

/** A reader's view, as `key=revision`, with what it was told last. */
function seen(undelivered: Undelivered) {
  const batch = undelivered.take();
  if (batch === undefined) return undefined;
  const puts = batch.puts.map(({ key, revision }) => `${key}=${revision}`);
  return { ...batch, puts };
}

/** That has delivered keys `a` and `b` of revision 1. */
function started(): Undelivered {
  const undelivered = new Undelivered();
  for (const key of ["b", "a"]) undelivered.put(entry(key, 1));
  undelivered.reached(1, "listed");
  assert.deepEqual(seen(undelivered), { revision: 1, puts: ["a=1", "b=1"], deletes: [] });
  return undelivered;
}

test("the first state is delivered even if it is empty, later ones only if they differ", () => {
  const undelivered = new Undelivered();
  assert.equal(seen(undelivered), undefined, "nothing has been listed");
  undelivered.reached(5, "changed");
  assert.equal(seen(undelivered), undefined);
  const empty = new Undelivered();
  empty.reached(5, "listed");
  assert.deepEqual(seen(empty), { revision: 5, puts: [], deletes: [] });
  empty.reached(6, "listed");
  assert.equal(seen(empty), undefined);
  assert.equal(empty.revision, 6);
});

test("what came and went between two batches is in none of them", () => {
  const undelivered = started();
  undelivered.put(entry("new", 2));
  undelivered.delete("new");
  undelivered.put(entry("a", 3));
  undelivered.put(entry("a", 4));
  undelivered.delete("b");
  undelivered.reached(4, "changed");
  assert.deepEqual([...undelivered.keys()], ["a"]);
  assert.deepEqual(seen(undelivered), { revision: 4, puts: ["a=4"], deletes: ["b"] });
  assert.equal(seen(undelivered), undefined);
  undelivered.delete("b");
  assert.equal(
    seen(undelivered),
    undefined,
    "what the reader does not have need not be taken away",
  );
});

test("an entry that is again what the reader has is no change", () => {
  const undelivered = started();
  undelivered.delete("a");
  undelivered.put(entry("a", 1));
  assert.equal(seen(undelivered), undefined);
});

test("an entry differs from what the reader has or is about to get", () => {
  const undelivered = started();
  undelivered.put(entry("a", 2));
  undelivered.delete("b");
  for (const [key, revision, differs] of [
    ["a", 2, false],
    ["a", 1, true],
    ["b", 1, true],
    ["c", 1, true],
  ] as const)
    assert.equal(undelivered.differs(entry(key, revision)), differs, `${key}=${revision}`);
  assert.equal(started().differs(entry("b", 1)), false);
});

test("the newest key that exists is known, delivered or not", () => {
  assert.equal(new Undelivered().newest(), undefined);
  const undelivered = started();
  undelivered.put(entry("b", 7));
  undelivered.put(entry("c", 5));
  assert.deepEqual(undelivered.newest(), { key: "b", revision: 7 });
  undelivered.delete("b");
  assert.deepEqual(undelivered.newest(), { key: "c", revision: 5 });
  undelivered.delete("c");
  assert.deepEqual(undelivered.newest(), { key: "a", revision: 1 });
});

test("a state that does not follow is delivered whole, also if it looks the same or is empty", () => {
  const undelivered = started();
  undelivered.put(entry("brief", 2));
  undelivered.reset();
  assert.equal(
    undelivered.differs(entry("a", 1)),
    true,
    "its revisions are those of another store",
  );
  undelivered.put(entry("a", 1));
  undelivered.delete("b");
  undelivered.reached(1, "listed");
  assert.deepEqual(seen(undelivered), { revision: 1, puts: ["a=1"], deletes: ["b"], reset: true });
  assert.equal(seen(undelivered), undefined, "once");
  const gone = started();
  gone.put(entry("a", 2));
  gone.reset();
  assert.deepEqual(seen(gone), { revision: 1, puts: ["a=2"], deletes: [], reset: true });
  const empty = new Undelivered();
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
      const undelivered = new Undelivered();
      const present = new Map<string, number>();
      const reader = new Map<string, number>();
      let revision = 1;
      undelivered.reached(revision, "listed");
      const take = () => {
        const batch = undelivered.take();
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
          undelivered.put(entry(each.put, revision));
        } else if ("drop" in each) {
          present.delete(each.drop);
          undelivered.delete(each.drop);
        } else take();
        undelivered.reached(revision, "changed");
        assert.deepEqual([...undelivered.keys()].sort(), [...present.keys()].sort());
        assert.equal(
          undelivered.newest()?.revision,
          present.size === 0 ? undefined : Math.max(...present.values()),
        );
      }
      take();
    }),
  );
});
