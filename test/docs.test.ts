// The generated pages in `docs/` are up to date.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ATTRIBUTES } from "#flow/classify/attribute.ts";
import { HEADER_PREFIX, HTTP_LABELS, PATH_LABEL, SERVICE_LABELS } from "#flow/label.ts";
import { WARNINGS } from "#policy/document/warning.ts";
import { PAGES } from "./tools/docs.ts";

for (const [file, text] of Object.entries(PAGES)) {
  test(`docs/${file} is up to date with \`make docs\``, () => {
    assert.equal(readFileSync(join(import.meta.dirname, "../docs", file), "utf8"), text());
  });
}

test("docs/security.md names tests that exist", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/security.md"), "utf8");
  const named = [...page.matchAll(/`(test\/[^`]+)`/g)].map(([, path = ""]) => path);
  assert.ok(named.length > 0);
  for (const path of named) assert.ok(existsSync(join(import.meta.dirname, "..", path)), path);
});

test("docs/writing-policies.md lists every code of a warning with its meaning", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/writing-policies.md"), "utf8");
  const [, section = ""] = /^## Warnings$(.*?)^## /ms.exec(page) ?? [];
  const listed = [...section.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)];
  assert.deepEqual(
    Object.fromEntries(listed.map(([, code, meaning]) => [code, meaning])),
    WARNINGS,
  );
});

test("docs/labels.md lists every label of a request and every attribute", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/labels.md"), "utf8");
  const namesIn = (heading: string) => {
    const [, section = ""] = new RegExp(`^## ${heading}$(.*?)^## `, "ms").exec(page) ?? [];
    const cells = [...section.matchAll(/^\| (`[^|]*`) \|/gm)].map(([, cell = ""]) => cell);
    return cells.flatMap((cell) => cell.split(", ").map((name) => name.replaceAll("`", "")));
  };
  const labels = [...SERVICE_LABELS, ...HTTP_LABELS, PATH_LABEL, `${HEADER_PREFIX}NAME`];
  assert.deepEqual(namesIn("Labels that every request has").sort(), labels.sort());
  assert.deepEqual(namesIn("Attributes that classifiers read").sort(), [...ATTRIBUTES].sort());
});
