// Header names are interned once per spelling, and different spellings are never confused.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { viewOf } from "#wire/protobuf/base64.ts";

function ofBytes(names: HeaderNames, name: string) {
  const bytes = Buffer.from(` ${name} `);
  return names.ofBytes(viewOf(bytes), 1, bytes.length - 1);
}

test("names with equal hashes and lengths stay distinct, in either order", () => {
  const pair = ["x-xdrdv4fnxq5ytw", "x-jy3w4sarrdzcv0"] as const;
  for (const [first, second] of [pair, pair.toReversed()] as const) {
    const names = new HeaderNames(seededChance(1));
    for (let round = 0; round < 2; round++) {
      assert.equal(ofBytes(names, first ?? "").raw, first);
      assert.equal(ofBytes(names, second ?? "").raw, second);
    }
    assert.notEqual(ofBytes(names, first ?? ""), ofBytes(names, second ?? ""));
  }
});

test("a spelling always yields the same object, from bytes or from text", () => {
  const names = new HeaderNames(seededChance(1));
  const all = Array.from({ length: 1_000 }, (_, n) => `X-Name-${n}`);
  const kept = all.map((name) => ofBytes(names, name));
  assert.equal(new Set(kept).size, all.length);
  for (const [at, name] of all.entries()) {
    assert.equal(ofBytes(names, name), kept[at]);
    assert.equal(names.ofText(name), kept[at]);
    assert.deepEqual([kept[at]?.raw, kept[at]?.lower], [name, name.toLowerCase()]);
  }
});

test("names are found by their bytes in any order, also after all have been dropped", () => {
  const spelling = fc.oneof(
    fc.constantFrom("", "a", "te", "via", "host", "Host", "hosu", "x-user", "x-uses", "y-user"),
    fc.string({ maxLength: 12, unit: fc.constantFrom("a", "b", "-") }),
    fc.nat(3_000).map((number) => `x-${number}`),
  );
  fc.assert(
    fc.property(fc.array(spelling, { maxLength: 80 }), fc.boolean(), (list, flood) => {
      const names = new HeaderNames(seededChance(1));
      for (let round = 0; round < 3; round++) {
        for (const name of list) {
          assert.equal(ofBytes(names, name).raw, name);
          assert.equal(ofBytes(names, name), names.ofText(name));
        }
        for (let at = 0; flood && at < 2_100; at++) ofBytes(names, `flood-${round}-${at}`);
      }
    }),
  );
});
