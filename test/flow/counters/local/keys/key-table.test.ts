import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { MAX_ROWS } from "#flow/counters/local/keys/key-segment.ts";
import { type Column, type EvictionPolicy, KeyTable } from "#flow/counters/local/keys/key-table.ts";
import { assertTwice } from "../../../../kit/properties/twice.ts";

const SHAPE = { words: 1, doubles: 1 };
/** No policy of these tests looks at the clock. */
const NOW = 0;

/** Forgets keys whose number is 0, and no others. */
const ZEROES: EvictionPolicy = {
  loss: (_now, doubles, d) => (doubles[d] === 0 ? 0 : Number.POSITIVE_INFINITY),
  forget: () => undefined,
};

function tableWith(maxKeys: number, owner = ZEROES): KeyTable {
  const table = new KeyTable(SHAPE, maxKeys);
  table.join(owner);
  return table;
}

function put(table: KeyTable, lo: number, hi: number, value: number, column = 0): boolean {
  if (!table.find(lo, hi) && !table.insert(lo, hi, NOW)) return false;
  table.doubles[table.d + column] = value;
  table.words[table.w + column] = value;
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
        const table = tableWith(1e6);
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
          assert.equal(table.words[table.w], value);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test("a hundred thousand keys through splits and removals", () => {
  const table = tableWith(1e6);
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
  const table = tableWith(200);
  const chance = seededChance(6);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  const kept = Array.from({ length: 150 }, () => [word(), word()] as const);
  for (const [lo, hi] of kept) assert.ok(put(table, lo, hi, 1));
  for (let more = 0; more < 10_000; more++) {
    const before = table.hasRoom(NOW);
    assert.equal(put(table, word(), word(), 0), before, "hasRoom predicts what an insert does");
  }
  assert.ok(table.count <= 200);
  for (const [lo, hi] of kept) assert.ok(table.find(lo, hi));
  for (let more = 0; more < 1_000; more++) put(table, word(), word(), 1);
  assert.equal(table.count, 200);
  assert.equal(put(table, word(), word(), 1), false);
  assert.equal(table.hasRoom(NOW), false);
  for (const [lo, hi] of kept) assert.ok(table.find(lo, hi));
});

test("full: of the keys that are looked at, the one that matters least is forgotten, and its owner told", () => {
  const forgotten: { readonly key: string; readonly value: number }[] = [];
  const owner: EvictionPolicy = {
    loss: (_now, doubles, d) => doubles[d] ?? 0,
    forget: ({ lo, hi }, _when, doubles, d) =>
      forgotten.push({ key: `${lo},${hi}`, value: doubles[d] ?? 0 }),
  };
  const table = tableWith(1_000, owner);
  const chance = seededChance(10);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  const model = new Map<string, number>();
  // One key in ten matters a hundred times as much as the others.
  for (let key = 0; key < 5_000; key++) {
    const [lo, hi, value] = [word(), word(), key % 10 === 0 ? 100 + key : 1];
    assert.ok(put(table, lo, hi, value));
    model.set(`${lo},${hi}`, value);
  }
  assert.equal(table.count, 1_000);
  for (const { key, value } of forgotten) {
    assert.equal(model.get(key), value, "told before the row is gone");
    model.delete(key);
  }
  for (const key of model.keys()) {
    const [lo = 0, hi = 0] = key.split(",").map(Number);
    assert.ok(table.find(lo, hi), "whatever was not forgotten is there");
  }
  const left = [...model.values()].filter((value) => value >= 100).length;
  assert.ok(left >= 495, `${left} of 500 keys that matter are left`);
});

test("spent keys are evicted before a segment grows", () => {
  const table = tableWith(1e6);
  const chance = seededChance(7);
  const word = () => 1 + Math.floor(chance() * 4294967295);
  for (let key = 0; key < 100_000; key++) put(table, word(), word(), 0);
  assert.ok(table.count < 100, String(table.count));
});

test("no insert touches more than one segment, however many keys there are", () => {
  let looks = 0;
  const counting: EvictionPolicy = {
    loss: () => {
      looks++;
      return Number.POSITIVE_INFINITY;
    },
    forget: () => undefined,
  };
  const table = tableWith(250_000, counting);
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

describe("shared by several columns", () => {
  const step = fc.oneof(
    { weight: 1, arbitrary: fc.constant({ kind: "join" } as const) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave"), column: fc.nat() } as const) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant("remove"), lo: WORD, hi: WORD } as const),
    },
    {
      weight: 30,
      arbitrary: fc.record({
        kind: fc.constant("put"),
        column: fc.nat(),
        lo: WORD,
        hi: WORD,
        // 0 makes the number spent again.
        value: fc.integer({ min: 0, max: 3 }),
      } as const),
    },
  );

  it("against a map for each column: columns come and go, and only spent keys are forgotten", () => {
    let refused = 0;
    assertTwice(
      fc.property(
        fc.array(step, { maxLength: 400, size: "max" }),
        fc.constantFrom(10, 60, 1e6),
        (steps, maxKeys) => {
          const table = new KeyTable(SHAPE, maxKeys);
          const model = new Map<Column, Map<string, number>>();
          for (let columns = 0; columns < 2; columns++) model.set(table.join(ZEROES), new Map());
          const columnAt = (index: number) => [...model.keys()][index % Math.max(1, model.size)];
          for (const one of steps) {
            if (one.kind === "join" && model.size < 6) model.set(table.join(ZEROES), new Map());
            else if (one.kind === "leave") {
              const column = columnAt(one.column);
              if (column !== undefined) table.leave(column);
              if (column !== undefined) model.delete(column);
            } else if (one.kind === "remove") {
              // The row that was found last may be the one that goes, or one that moves because of that.
              const [column, keys] = [...model][0] ?? [];
              const [last, value] = [...(keys ?? [])].at(-1) ?? [`${one.lo},${one.hi}`, 0];
              const [lo = 0, hi = 0] = last.split(",").map(Number);
              table.find(lo, hi);
              table.remove(one.lo, one.hi);
              for (const keys of model.values()) keys.delete(`${one.lo},${one.hi}`);
              if (lo === one.lo && hi === one.hi) assert.equal(table.find(lo, hi), false);
              else if (table.find(lo, hi)) {
                assert.equal(table.doubles[table.d + (column?.place ?? 0)], value);
              }
            } else if (one.kind === "put") {
              const column = columnAt(one.column);
              if (column === undefined) continue;
              if (put(table, one.lo, one.hi, one.value, column.place))
                model.get(column)?.set(`${one.lo},${one.hi}`, one.value);
              else refused++;
            }
          }
          assert.equal(table.width, model.size);
          assert.ok(table.count <= maxKeys, `${table.count} keys of ${maxKeys}`);
          const all = new Set([...model.values()].flatMap((keys) => [...keys.keys()]));
          for (const key of all) {
            const [lo = 0, hi = 0] = key.split(",").map(Number);
            const there = table.find(lo, hi);
            for (const [{ place }, keys] of model) {
              const value = keys.get(key) ?? 0;
              assert.ok(there || value === 0, `${key} is forgotten but holds ${value}`);
              if (!there) continue;
              assert.equal(table.doubles[table.d + place], value);
              assert.equal(table.words[table.w + place], value);
            }
          }
        },
      ),
      500,
    );
    assert.ok(refused > 0, "some tables were full");
  });

  it("keeps its numbers when ten columns join at once, however many keys there are", () => {
    const table = tableWith(1e6);
    const chance = seededChance(9);
    const word = () => 1 + Math.floor(chance() * 4294967295);
    const keys = Array.from({ length: 50_000 }, (_, at) => [word(), word(), at + 1] as const);
    for (const [lo, hi, value] of keys) put(table, lo, hi, value);
    const columns = Array.from({ length: 10 }, () => table.join(ZEROES));
    for (const [lo, hi, value] of keys) put(table, lo, hi, value + 7, columns[6]?.place);
    for (const column of columns) if (column !== columns[6]) table.leave(column);
    assert.equal(table.width, 2);
    assert.equal(table.count, keys.length);
    for (const [lo, hi, value] of keys) {
      assert.ok(table.find(lo, hi));
      assert.deepEqual([...table.doubles.slice(table.d, table.d + 2)], [value, value + 7]);
    }
  });

  it("forgets what only columns held that have left", () => {
    const table = tableWith(100);
    const column = table.join(ZEROES);
    for (let key = 1; key <= 100; key++) assert.ok(put(table, key, key, 1, column.place));
    assert.equal(table.hasRoom(NOW), false);
    table.leave(column);
    for (let key = 1; key <= 100; key++) assert.ok(put(table, 1_000 + key, key, 1));
    assert.ok(table.count <= 100);
  });
});
