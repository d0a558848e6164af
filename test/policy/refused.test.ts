// Whole documents that must be refused, and what each refusal must name.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Finding } from "#policy/finding.ts";
import { findings } from "./kit.ts";

/** Refused for another reason until this version can judge them. One that is judged after all fails here. */
const JUDGED_LATER: ReadonlyMap<string, string> = new Map([
  ["classifier-rego-syntax", "Rego is not parsed yet; every document with a module is refused"],
]);

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

describe("at fault", () => {
  const root = "test/cases/policy-invalid";
  const cases = readdirSync(root);
  test("there are cases", () => assert.ok(cases.length >= 100));
  test("the list of what is judged later is true", () => {
    for (const name of JUDGED_LATER.keys()) assert.ok(cases.includes(name), name);
  });
  for (const name of cases) {
    test(name, () => {
      const { found, names } = read(root, name);
      assert.notEqual(found.length, 0, "refused");
      const faults = found.filter(({ kind }) => kind === "fault");
      if (JUDGED_LATER.has(name)) {
        assert.deepEqual(faults, [], "is judged after all: take it off the list");
        return;
      }
      for (const item of names) {
        assert.ok(
          faults.some((finding) => named(finding, item)),
          `names ${item}: ${JSON.stringify(faults)}`,
        );
      }
    });
  }
});

describe("not supported in this version", () => {
  const root = "test/cases/policy-unsupported";
  const cases = readdirSync(root);
  test("there are cases", () => assert.ok(cases.length >= 30));
  for (const name of cases) {
    test(name, () => {
      const { found, names } = read(root, name);
      assert.deepEqual(
        found.filter(({ kind }) => kind === "fault"),
        [],
      );
      assert.deepEqual([...new Set(found.map(({ path }) => path))], names);
    });
  }
});
