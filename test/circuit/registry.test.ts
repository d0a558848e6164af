// Every kind of component has a file of its own that starts with its rule.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const room = new URL("../../src/circuit/", import.meta.url);
const plan = readFileSync(new URL("plan.ts", room), "utf8");
const configs = plan.slice(plan.indexOf("interface Configs"), plan.indexOf("export type Kind"));
const kinds = [...configs.matchAll(/^ {2}readonly (\w+):/gm)].map(([, kind = ""]) => kind);

test("there are kinds", () => assert.equal(kinds.length, 35));

for (const kind of kinds) {
  test(`${kind} has a file with its rule`, () => {
    const text = readFileSync(new URL(`components/${kind.replaceAll("_", "-")}.ts`, room), "utf8");
    assert.match(text, /^\/\/ .{20}/);
  });
}
