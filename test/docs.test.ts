// The committed reference pages say what the code does now.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PAGES } from "./tools/docs.ts";

for (const [file, text] of Object.entries(PAGES)) {
  test(`docs/${file} is what \`make docs\` writes`, () => {
    assert.equal(readFileSync(join(import.meta.dirname, "../docs", file), "utf8"), text());
  });
}
