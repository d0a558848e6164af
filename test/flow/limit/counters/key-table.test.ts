import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { MAX_ROWS, RowLayout } from "#flow/limit/counters/key-segment.ts";
import { type EvictionPolicy, KeyTable } from "#flow/limit/counters/key-table.ts";

const LAYOUT = new RowLayout({ words: 3, doubles: 1 });

/** Forgets keys whose number is 0. */
const ZEROES: EvictionPolicy = {
  spent: (doubles, d) => doubles[d] === 0,
  forget: () => undefined,
};

function put(table: KeyTable, lo: number, hi: number, value: number): boolean {
  if (!table.find(lo, hi) && !table.insert(lo, hi)) return false;
  table.doubles[table.d] = value;
  table.words[table.w + 2] = value;
  return true;
}

/** Two words that fall together often: rows collide, removals close gaps around the end. */
const WORD = fc.oneof(
  fc.integer({ min: 1, max: 6 }),
  fc.integer({ min: 0xfffffff0, max: 0xffffffff }),
  fc.integer({ min: 1, max: 0xffffffff }),
);

test("against a map: finds, inserts, removals, growth", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom("put", "put", "remove"), WORD, WORD, fc.nat()), {
        maxLength: 300,
      }),
      (steps) => {
        const table = new KeyTable(LAYOUT, 1e6, ZEROES);
        const model = new Map<string, number>();
        for (const [what, lo, hi, n] of steps) {
          const value = 1 + (n % 1_000_000);
          if (what === "put") {
            assert.ok(put(table, lo, hi, value));
            model.set(`${lo},${hi}`, value);
          } else {
            table.remove(lo, hi);
            model.delete(`${lo},${hi}`);
          }
        }
        assert.equal(table.count, model.size);
        for (const [key, value] of model) {
          const [lo = 0, hi = 0] = key.split(",").map(Number);
          assert.ok(table.find(lo, hi), key);
          assert.equal(table.doubles[table.d], value);
          assert.equal(table.words[table.w + 2], value);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("a hundred thousand keys through splits and removals", () => {
  const table = new KeyTable(LAYOUT, 1e6, ZEROES);
  const chance = seededChance(5);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  const keys = Array.from({ length: 100_000 }, (_, index) => [word(), word(), index + 1] as const);
  for (const [lo, hi, value] of keys) put(table, lo, hi, value);
  for (const [lo, hi, value] of keys) if (value % 3 === 0) table.remove(lo, hi);
  for (const [lo, hi, value] of keys) {
    const there = table.find(lo, hi);
    assert.equal(there, value % 3 !== 0);
    if (there) assert.equal(table.doubles[table.d], value);
  }
  assert.equal(table.count, keys.filter(([, , value]) => value % 3 !== 0).length);
});

test("full: a spent key is evicted, any other never", () => {
  const table = new KeyTable(LAYOUT, 200, ZEROES);
  const chance = seededChance(6);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  const kept = Array.from({ length: 150 }, () => [word(), word()] as const);
  for (const [lo, hi] of kept) assert.ok(put(table, lo, hi, 1));
  for (let more = 0; more < 10_000; more++) {
    const before = table.hasRoom();
    assert.equal(put(table, word(), word(), 0), before, "hasRoom predicts what an insert does");
  }
  assert.ok(table.count <= 200);
  for (const [lo, hi] of kept) assert.ok(table.find(lo, hi));
  for (let more = 0; more < 1_000; more++) put(table, word(), word(), 1);
  assert.equal(table.count, 200);
  assert.equal(put(table, word(), word(), 1), false);
  assert.equal(table.hasRoom(), false);
  for (const [lo, hi] of kept) assert.ok(table.find(lo, hi));
});

test("spent keys are evicted before a segment grows", () => {
  const table = new KeyTable(LAYOUT, 1e6, ZEROES);
  const chance = seededChance(7);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  for (let key = 0; key < 100_000; key++) put(table, word(), word(), 0);
  assert.ok(table.count < 100, String(table.count));
});

test("no insert touches more than one segment, however many keys there are", () => {
  let looks = 0;
  const counting: EvictionPolicy = {
    spent: () => {
      looks++;
      return false;
    },
    forget: () => undefined,
  };
  const table = new KeyTable(LAYOUT, 250_000, counting);
  const chance = seededChance(8);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  let most = 0;
  let total = 0;
  for (let key = 0; key < 300_000; key++) {
    looks = 0;
    put(table, word(), word(), 1);
    most = Math.max(most, looks);
    total += looks;
  }
  assert.equal(table.count, 250_000);
  assert.ok(most > 16 && most <= MAX_ROWS, `${most} rows in one insert`);
  assert.ok(total < 20 * 300_000, `${total / 300_000} rows per insert`);
});
