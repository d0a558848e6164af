// Checks that are over and used again: their bytes are let go, and a bounded number of them is kept.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SpareChecks } from "#api/fast-path/spare-checks.ts";

/** A pool of checks that count how often their bytes were released. */
function pool() {
  const made: { released: number; readonly http: { releaseBytes(): void } }[] = [];
  const checks = new SpareChecks(() => {
    const check = { released: 0, http: { releaseBytes: () => void check.released++ } };
    made.push(check);
    return check;
  });
  return { made, checks };
}

test("a check that is put back lets go of its bytes, and is taken again", () => {
  const { made, checks } = pool();
  const first = checks.take();
  assert.notEqual(checks.take(), first, "it is in use");
  assert.deepEqual(
    made.map(({ released }) => released),
    [0, 0],
  );
  checks.put(first);
  assert.deepEqual(
    made.map(({ released }) => released),
    [1, 0],
  );
  assert.equal(checks.take(), first);
  assert.equal(made.length, 2);
});

test("no more spare checks are kept than the limit, whose bytes are let go all the same", () => {
  const { made, checks } = pool();
  const many = Array.from({ length: 1_000 }, () => checks.take());
  for (const check of many) checks.put(check);
  assert.ok(made.every(({ released }) => released === 1));
  for (let again = 0; again < 1_000; again++) checks.take();
  const kept = 2_000 - made.length;
  assert.equal(kept, 256);
});
