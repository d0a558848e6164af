// Creates folders that users name in settings.

import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Creates a folder with its parents, unless it is there. Throws the system's error. Not Node's own recursive `mkdir`,
 * which never returns where the system denies the existence of what it does not let anyone create, as under `/proc`.
 */
export function createFolder(path: string): void {
  const missing: string[] = [];
  for (let at = resolve(path); !isFolder(at) && at !== dirname(at); at = dirname(at))
    missing.push(at);
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder);
    } catch (thrown) {
      // Another process may have created it in the meantime.
      if (!isFolder(folder)) throw thrown;
    }
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
