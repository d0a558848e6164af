// Runs the fault matrix and writes what it saw into docs/fault-matrix.md: `npm run -s faults`, or with words of the
// faults to run only these rows: `npm run -s faults -- Redis frozen`. In a network of its own, because some rows cut it.

import { readFileSync, writeFileSync } from "node:fs";
import { argv, exit, stdout } from "node:process";
import { enterOwnNetwork } from "../../kit/faults/own-network.ts";
import { faultMatrixPage, PAGE, RECORDED, type Recorded } from "./page.ts";
import type { Observations, Row } from "./row.ts";
import { judge, limitsOf, observe, ROWS } from "./table.ts";

enterOwnNetwork();

const words = argv.slice(2);
const wanted = ROWS.filter(({ fault, family }) =>
  words.every((word) => `${family} ${fault}`.includes(word)),
);
if (wanted.length === 0) {
  stdout.write("no row has all of these words\n");
  exit(64);
}
const recorded: Record<string, Observations> = { ...read() };
let failed = 0;
for (const [at, row] of wanted.entries()) {
  stdout.write(`${at + 1}/${wanted.length} ${row.family}: ${row.fault}\n`);
  const began = performance.now();
  try {
    const observed = await run(row);
    for (const name of limitsOf(row))
      stdout.write(`    ${name} ${JSON.stringify(observed[name])}\n`);
    judge(row, observed);
    recorded[row.fault] = observed;
  } catch (thrown) {
    failed += 1;
    stdout.write(`    FAILED ${thrown instanceof Error ? thrown.stack : String(thrown)}\n`);
  }
  stdout.write(`    ${Math.round((performance.now() - began) / 1_000)} s\n`);
}
// Rows keep their order, and what is no row any more goes.
const ordered = ROWS.flatMap(({ fault }) => {
  const found = recorded[fault];
  return found === undefined ? [] : [[fault, found] as const];
});
writeFileSync(RECORDED, `${JSON.stringify(Object.fromEntries(ordered), undefined, 2)}\n`);
writeFileSync(PAGE, faultMatrixPage());
stdout.write(`${wanted.length - failed} of ${wanted.length} rows are within their bounds\n`);
exit(failed === 0 ? 0 : 1);

async function run(row: Row): Promise<Observations> {
  const cleaning: (() => unknown)[] = [];
  try {
    return await observe({ after: (clean) => void cleaning.push(clean) }, row);
  } finally {
    for (const clean of cleaning.reverse()) await clean();
  }
}

function read(): Recorded {
  try {
    return JSON.parse(readFileSync(RECORDED, "utf8"));
  } catch {
    return {};
  }
}
