// Every kind of component has its rule above its row.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";

const room = new URL("../../src/circuit/", import.meta.url);
const plan = readFileSync(new URL("plan.ts", room), "utf8");
const configs = plan.slice(plan.indexOf("interface Configs"), plan.indexOf("export type Kind"));
const kinds = [...configs.matchAll(/^ {2}readonly (\w+):/gm)].map(([, kind = ""]) => kind);

test("there are kinds", () => assert.equal(kinds.length, 35));

const tables = globSync("components/*.ts", { cwd: room }).map((file) =>
  readFileSync(new URL(file, room), "utf8"),
);

for (const kind of kinds) {
  test(`${kind} has a row with its rule`, () => {
    const row = new RegExp(` \\*/\n  ${kind}: `);
    assert.ok(tables.some((table) => row.test(table)));
  });
}
