// Notices that certificate files changed on disk: by watching their folders (secret volumes swap links, so
// the files themselves are the wrong thing to watch), and by looking now and then where watching fails.

import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";
import type { Clock } from "#base/clock.ts";

/** Writers replace two or three files one after the other: look once they are probably done. */
const SETTLE_MS = 100;
/** For file systems that tell of no changes. */
const LOOK_EVERY_MS = 30_000;

/** Calls `look` after changes; the returned function ends it. `look` may find nothing new. */
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
    // A folder that vanishes ends its watch; looking goes on.
    watcher.on("error", () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
