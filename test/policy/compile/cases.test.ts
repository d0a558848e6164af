// Whole documents with what they compile to: the expanded circuit and the configurations of agents.
// `RENEW=1 node --test test/policy/compile/cases.test.ts` renews the expected results; read the diff
// before you commit it.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { expanded } from "#policy/diagram/expand.ts";
import { compiled } from "../kit.ts";

const ROOT = "test/cases/policy";
const cases = readdirSync(ROOT);

test("there are cases", () => assert.ok(cases.length >= 50));

for (const name of cases) {
  test(name, () => {
    const folder = join(ROOT, name);
    const policy = compiled(readFileSync(join(folder, "policy.yaml"), "utf8"), name);
    const { configs, warnings } = policy;
    const { evaluation_interval, components } = expanded(policy);
    const noted = warnings.map(({ path, text }) => `${path}: ${text}`);
    const result = { evaluation_interval, components, configs, warnings: noted };
    const got = `${JSON.stringify(result, null, 1).replaceAll(policy.hash, "HASH")}\n`;
    const file = join(folder, "compiled.json");
    if (process.env["RENEW"] === "1") writeFileSync(file, got);
    assert.ok(existsSync(file), `${file} is there`);
    assert.equal(got, readFileSync(file, "utf8"));
  });
}
