// The generated pages in `docs/` are up to date.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PAGES } from "./tools/docs.ts";

for (const [file, text] of Object.entries(PAGES)) {
  test(`docs/${file} is up to date with \`make docs\``, () => {
    assert.equal(readFileSync(join(import.meta.dirname, "../docs", file), "utf8"), text());
  });
}
