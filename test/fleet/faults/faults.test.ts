// The fault matrix: its quick rows under load, and its page. `npm run -s faults` runs all rows.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { faultMatrixPage, PAGE, RECORDED, type Recorded } from "./page.ts";
import { sum } from "./row.ts";
import { judge, limitsOf, observe, ROWS } from "./table.ts";

for (const row of ROWS.filter(({ quick }) => quick === true)) {
  test(`${row.family}: ${row.fault}`, async (t) => {
    const observed = await observe(t, row);
    for (const name of limitsOf(row)) t.diagnostic(`${name} ${JSON.stringify(observed[name])}`);
    judge(row, observed);
  });
}

test("docs/fault-matrix.md says of every row what a run saw, and that is within its bounds", () => {
  const recorded: Recorded = JSON.parse(readFileSync(RECORDED, "utf8"));
  const names = ROWS.map(({ fault }) => fault);
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(Object.keys(recorded), names, "`npm run -s faults` runs rows and records them");
  for (const row of ROWS) judge(row, recorded[row.fault] ?? {});
  const page = readFileSync(PAGE, "utf8");
  assert.equal(page, faultMatrixPage(), "`npm run -s docs` writes it from what was recorded");
  // The page as such: a row that the generator leaves out, or a number that it makes up, is seen here.
  for (const row of ROWS) {
    const at = page.split("\n").findIndex((line) => line.startsWith(`| **${row.fault}** |`));
    assert.ok(at >= 0, row.fault);
    for (const [next, name] of limitsOf(row).entries()) {
      const cells = page.split("\n")[at + next]?.split(" | ") ?? [];
      const { beyond, seen } = recorded[row.fault]?.[name] ?? assert.fail(row.fault);
      assert.deepEqual([cells[4], cells[6]], [String(beyond), String(sum(seen))], row.fault);
    }
  }
});

test("judging fails when more was admitted than a row allows, and when there was no load", () => {
  const [row = assert.fail()] = ROWS;
  const seen = { accepted: row.checks, refused: 0, onFailure: 0, unanswered: 0 };
  const within = { seen, beyond: 0, keys: 10 };
  const all = Object.fromEntries(limitsOf(row).map((name) => [name, within]));
  judge(row, all);
  assert.throws(() => judge(row, { ...all, rate: { ...within, beyond: 1 } }), /1 beyond capacity/);
  const idle = { ...within, seen: { ...seen, accepted: 0 } };
  assert.throws(
    () => judge(row, Object.fromEntries(limitsOf(row).map((name) => [name, idle]))),
    /0 checks while the fault lasted/,
  );
  assert.throws(() => judge(row, {}), /was not observed/);
});
