// Work that follows a start, so that a process which serves holds little memory and answers fast.

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A heap up to this size is not worth the time, in bytes: a start with a few policies leaves 35 MB. */
const SMALL = 45e6;

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/**
 * Gives memory back that a start has used and that nothing holds any more. V8 itself would do so only when the heap grows
 * further, which in an idle process may be never.
 *
 * Collects garbage and compacts the heap where that is large. Takes some tenths of a second: call it before serving.
 */
export function compactHeap(): void {
  if (getHeapStatistics().total_heap_size <= SMALL) return;
  setFlagsFromString("--expose-gc");
  const collect: Collect = runInNewContext("gc");
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
}

/**
 * Switches V8's optimizing compilers (Maglev and Turbofan) on. `sluice.js` switches them off while a process starts: they
 * would compile what a start runs some hundred times, and the process would keep 8 MB of their code and of what they
 * allocated. Checks need them.
 */
export function useOptimizingCompilers(): void {
  setFlagsFromString("--maglev");
  setFlagsFromString("--turbofan");
}
