// Memory that this process holds, measured so that the figure does not depend on when V8 collects garbage.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A collection that frees less than this, in bytes, was the last one that was worth it. */
const NEXT_TO_NOTHING = 16 * 1024;
const MAX_COLLECTIONS = 10;

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

/**
 * Collects garbage until a further collection frees next to nothing, and returns what is still used. One collection is
 * not enough: buffers that it finds are only freed by the next one.
 */
export function withoutGarbage(): NodeJS.MemoryUsage {
  collect();
  let usage = process.memoryUsage();
  for (let again = 1; again < MAX_COLLECTIONS; again++) {
    collect();
    const before = bytesOf(usage);
    usage = process.memoryUsage();
    if (before - bytesOf(usage) < NEXT_TO_NOTHING) break;
  }
  return usage;
}

/** Bytes on the heap and outside of it that are still held when garbage has been collected. */
export function heldBytes(): number {
  return bytesOf(withoutGarbage());
}

function bytesOf({ heapUsed, external }: NodeJS.MemoryUsage): number {
  return heapUsed + external;
}
