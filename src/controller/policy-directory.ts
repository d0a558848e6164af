// Tells which files of a policy directory are documents, and which only look like documents. The controller and `policy check`
// share it, so that a check reads what would run.

import { readdir } from "node:fs/promises";
import { join } from "node:path";

/** Largest policy document: far beyond any written by hand, too small to stall the process. */
export const MAX_BYTES = 4 * 1024 * 1024;

/** Excludes names that start with a dot, which editors and mounted volumes use. */
const DOCUMENT = /^[^.].*\.(?:ya?ml|json)$/;

/** Also matches other cases of letters and copies, as in `a.YAML`, `a.yaml.bak` and `a.yaml~`. */
const LOOKS_LIKE_DOCUMENT = /^[^.].*\.(?:ya?ml|json)(?:~|\.[^.]+~?)?$/i;

export const WANTED_NAME =
  "only files directly in the directory are, with names that end in .yaml, .yml or .json and do not start with a dot";

export function isDocument(name: string): boolean {
  return DOCUMENT.test(name);
}

/**
 * Paths of files that look like documents and are not read, because of their names or because they are in a subfolder. Empty
 * for an unreadable directory.
 */
export async function ignoredFiles(directory: string): Promise<readonly string[]> {
  const ignored: string[] = [];
  for (const entry of await entriesOf(directory)) {
    const path = join(directory, entry.name);
    if (LOOKS_LIKE_DOCUMENT.test(entry.name)) {
      if (!entry.isDirectory() && !isDocument(entry.name)) ignored.push(path);
    } else if (!entry.isFile() && !entry.name.startsWith(".")) {
      // A folder, or a link that may be one.
      const inner = (await entriesOf(path)).filter(({ name }) => isDocument(name));
      ignored.push(...inner.map(({ name }) => join(path, name)));
    }
  }
  return ignored;
}

async function entriesOf(directory: string) {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
}
