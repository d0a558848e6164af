import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { KeyHash } from "#flow/counters/local/keys/key-hash.ts";
import { fnv1a, mixedHash } from "#flow/limit/session-hash.ts";

/** Published vectors of HalfSipHash-2-4-64: key 00..07, input the bytes 0, 1, 2 … of even lengths. */
const VECTORS: readonly (readonly [number, string])[] = [
  [0, "218d1f59b9b83cc8"],
  [2, "064f39ef7c50eb57"],
  [4, "d5e78a175be52ea1"],
  [6, "ce3e91358aa2bc25"],
  [8, "edfee820bce4858c"],
  [10, "95b0469f06a6f2ee"],
  [12, "7bc71f9faef5c799"],
  [14, "3bb1a870eae8e658"],
];

function hex(hash: KeyHash): string {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(hash.lo, 0);
  bytes.writeUInt32LE(hash.hi, 4);
  return bytes.toString("hex");
}

test("hashes as published", () => {
  const hash = new KeyHash(0x03020100, 0x07060504);
  for (const [length, wanted] of VECTORS) {
    const bytes = Buffer.from(Array.from({ length }, (_, index) => index));
    hash.of(bytes.toString("utf16le"));
    assert.equal(hex(hash), wanted, `length ${length}`);
  }
});

test("equal texts have equal hashes wherever they start; another seed gives other hashes", () => {
  const hash = KeyHash.seeded(seededChance(1));
  const other = KeyHash.seeded(seededChance(2));
  fc.assert(
    fc.property(fc.string({ maxLength: 40 }), fc.string(), (text, before) => {
      hash.of(text);
      const whole = hex(hash);
      hash.ofTail(before + text, before.length);
      assert.equal(hex(hash), whole);
      other.of(text);
      assert.notEqual(hex(other), whole);
      assert.notEqual(hash.lo, 0);
    }),
  );
});

test("both halves of the seed count", () => {
  const hashes = [
    [0.25, 0.75],
    [0.25, 0.5],
    [0.5, 0.75],
  ].map((dice) => {
    const hash = KeyHash.seeded(() => dice.shift() ?? 0);
    hash.of("key");
    return hex(hash);
  });
  assert.equal(new Set(hashes).size, hashes.length);
});

test("every unit counts, however long the text", () => {
  const hash = KeyHash.seeded(seededChance(3));
  const seen = new Set<string>();
  for (const length of [1, 2, 3, 127, 128, 129, 8_192, 100_000, 100_001]) {
    const text = "x".repeat(length);
    for (const variant of [text, `${text.slice(0, -1)}y`, `y${text.slice(1)}`]) {
      hash.of(variant);
      seen.add(hex(hash));
    }
  }
  assert.equal(seen.size, 9 * 3 - 1); // of one unit, both variants are "y"
});

test("FNV-1a over UTF-8, the same on all agents", () => {
  assert.equal(fnv1a(""), 0x811c9dc5);
  assert.equal(fnv1a("a"), 0xe40c292c);
  assert.equal(fnv1a("foobar"), 0xbf9cf968);
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      let wanted = 2166136261;
      for (const byte of new TextEncoder().encode(text)) {
        wanted = Math.imul(wanted ^ byte, 16777619) >>> 0;
      }
      assert.equal(fnv1a(text), wanted);
    }),
  );
  assert.equal(fnv1a("\ud800"), fnv1a("\ufffd"));
  assert.equal(fnv1a("\udc00x"), fnv1a("\ufffdx"));
});

test("the mixed hash of sessions is the same on all agents, and after every upgrade", () => {
  const known: readonly (readonly [string, number])[] = [
    ["", 2872998923],
    ["0", 1693486945],
    ["user-1", 2005895916],
    ["é😀", 166440505],
  ];
  for (const [text, hash] of known) assert.equal(mixedHash(text), hash, text);
});
