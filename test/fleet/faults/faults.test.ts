// The fault matrix: its quick rows under load, and its page. `npm run -s faults` runs all rows.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { RECORDED, type Recorded } from "./page.ts";
import { judge, limitsOf, observe, ROWS } from "./table.ts";

for (const row of ROWS.filter(({ quick }) => quick === true)) {
  test(`${row.family}: ${row.fault}`, async (t) => {
    const observed = await observe(t, row);
    for (const name of limitsOf(row)) t.diagnostic(`${name} ${JSON.stringify(observed[name])}`);
    judge(row, observed);
  });
}

test("docs/fault-matrix.md has every row, each as it was seen in a run, and within its bounds", () => {
  const recorded: Recorded = JSON.parse(readFileSync(RECORDED, "utf8"));
  const names = ROWS.map(({ fault }) => fault);
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(Object.keys(recorded), names, "`npm run -s faults` runs rows and records them");
  for (const row of ROWS) judge(row, recorded[row.fault] ?? {});
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
