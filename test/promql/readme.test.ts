// Compares the README's table of supported features with the evaluator. `readme.test.ts --write` renews it.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SUPPORTED } from "#promql/evaluate/supported.ts";
import { AGGREGATIONS, FUNCTIONS } from "#promql/functions.ts";

const FILE = join(import.meta.dirname, "../../src/promql/README.md");
const BETWEEN = /(<!-- known -->\n)[\s\S]*(<!-- \/known -->)/;

function table(): string {
  const rows = [
    ["selectors", "matchers `=` `!=` `=~` `!~`, ranges, `offset`"],
    ["functions", list(SUPPORTED.functions)],
    ["aggregations", `${list(SUPPORTED.aggregations)}, with \`by\` and \`without\``],
    [
      "operators",
      `${list(SUPPORTED.operators)}, signs, \`bool\`, \`on\`, \`ignoring\`, \`group_left\`, \`group_right\``,
    ],
    ["literals", "numbers, durations as numbers, strings"],
  ];
  return `| Kind | Known |\n|---|---|\n${rows.map((row) => `| ${row.join(" | ")} |\n`).join("")}`;
}

function list(names: readonly string[]): string {
  return names
    .toSorted()
    .map((name) => `\`${name}\``)
    .join(" ");
}

if (process.argv.includes("--write")) {
  writeFileSync(FILE, readFileSync(FILE, "utf8").replace(BETWEEN, `$1${table()}$2`));
}

test("the README lists what is supported", () => {
  assert.ok(readFileSync(FILE, "utf8").includes(`<!-- known -->\n${table()}<!-- /known -->`));
});

test("everything supported is part of the language", () => {
  for (const name of SUPPORTED.functions) assert.ok(FUNCTIONS.has(name), name);
  for (const name of SUPPORTED.aggregations) assert.ok(AGGREGATIONS.has(name), name);
});
