// Whole documents that must be refused, and what each refusal must name.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Finding } from "#policy/document/finding.ts";
import { findings } from "../kit.ts";

function read(root: string, name: string) {
  const text = readFileSync(join(root, name, "policy.yaml"), "utf8");
  const names = readFileSync(join(root, name, "names.txt"), "utf8")
    .trim()
    .split("\n");
  return { found: findings(text), names };
}

function named({ path, wanted, got }: Finding, item: string): boolean {
  const said = `${path}: ${wanted}, ${got}`;
  return item.split(" ").every((word) => said.includes(word)) || said.includes(item);
}

const ROOT = "test/cases/policy-invalid";
const cases = readdirSync(ROOT);

test("there are cases", () => assert.ok(cases.length >= 105));

for (const name of cases) {
  test(name, () => {
    const { found, names } = read(ROOT, name);
    assert.notEqual(found.length, 0, "refused");
    assert.notEqual(names.length, 0);
    for (const item of names) {
      assert.ok(
        found.some((finding) => named(finding, item)),
        `names ${item}: ${JSON.stringify(found)}`,
      );
    }
  });
}
