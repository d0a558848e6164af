// V8 of this process: its garbage collector, the size of its heap after a start, and its optimizing compilers.

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

interface CollectOptions {
  readonly type: "major";
  readonly execution: "sync";
  /** Also compacts the heap. */
  readonly flavor: "last-resort";
}

/** Node hides the collector: a flag makes it a global of new contexts. */
export function collectGarbage(options?: CollectOptions): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options?: CollectOptions) => void;
  collect(options);
}

/** A heap up to this size is not worth the time, in bytes: a start with a few policies leaves 35 MB. */
const SMALL = 45e6;

/**
 * Gives back the memory that a start has used. V8 itself would do so only when the heap grows further, which may never
 * happen in an idle process. Takes some tenths of a second for a large heap: call it before serving.
 */
export function compactHeap(): void {
  if (getHeapStatistics().total_heap_size <= SMALL) return;
  collectGarbage({ type: "major", execution: "sync", flavor: "last-resort" });
}

/**
 * Switches V8's optimizing compilers (Maglev and Turbofan) on. `sluice.js` switches them off while a process starts: they
 * would compile code that only a start runs, and the process would keep 8 MB of it. Checks need them.
 */
export function useOptimizingCompilers(): void {
  setFlagsFromString("--maglev");
  setFlagsFromString("--turbofan");
}
