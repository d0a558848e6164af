// A temporary folder of files that is removed when the test ends.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ending } from "./ending.ts";

export type Files = Readonly<Record<string, string>>;

export function folderOf(test: Ending, files: Files = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}
