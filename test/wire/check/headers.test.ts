// Header names are interned once per spelling, and different spellings are never confused.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { HeaderNames, hasInvalidByte } from "#wire/check/headers.ts";

function ofBytes(names: HeaderNames, name: string) {
  const bytes = Buffer.from(` ${name} `);
  return names.ofBytes(bytes, 1, bytes.length - 1);
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

test("an invalid byte is found wherever it stands", () => {
  const byte = fc.oneof(fc.constantFrom(0, 9, 10, 13, 31, 32, 128, 138, 255), fc.nat(255));
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 13 }), fc.nat(5), (bytes, before) => {
      const memory = Uint8Array.from([...new Array<number>(before).fill(0), ...bytes, 0]);
      const end = before + bytes.length;
      const expected = bytes.some((each) => each === 0 || each === 10 || each === 13);
      assert.equal(hasInvalidByte(new DataView(memory.buffer), before, end), expected);
    }),
    { numRuns: 5000 },
  );
});
