// Notices that certificate files changed: watches their folders (secret volumes swap links, so watching the files
// themselves would miss it), and also polls for file systems that cannot be watched.

import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "#base/clock.ts";

/** The files are replaced one after the other: look when all are probably done. */
const SETTLE_MS = 100;
/** For file systems that report no changes. */
const LOOK_EVERY_MS = 30_000;

/** Calls `look` after changes, and periodically even without one. The returned function stops it. */
export function watchFiles(files: readonly string[], clock: Clock, look: () => void): () => void {
  let settling: (() => void) | undefined;
  let polling: () => void = () => undefined;
  const changed = () => {
    settling?.();
    settling = clock.alarm(SETTLE_MS, look);
  };
  const poll = () => {
    polling = clock.alarm(LOOK_EVERY_MS, () => {
      look();
      poll();
    });
  };
  const watchers = [...new Set(files.map(dirname))].flatMap((folder) => open(folder, changed));
  poll();
  return () => {
    settling?.();
    polling();
    for (const watcher of watchers) watcher.close();
  };
}

function open(folder: string, changed: () => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { persistent: false }, changed);
    // A folder that vanishes ends its watch; polling goes on.
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
