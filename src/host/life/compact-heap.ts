// Gives memory back that a start has used and that nothing holds any more. V8 itself would do so only when the heap grows
// further, which in an idle process may be never.

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A heap up to this size is not worth the time, in bytes: a start with a few policies leaves 35 MB. */
const SMALL = 45e6;

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/** Collects garbage and compacts the heap where that is large. Takes some tenths of a second: call it before serving. */
export function compactHeap(): void {
  if (getHeapStatistics().total_heap_size <= SMALL) return;
  setFlagsFromString("--expose-gc");
  const collect: Collect = runInNewContext("gc");
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
}
