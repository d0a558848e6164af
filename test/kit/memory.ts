// Memory that this process holds, measured so that the figure does not depend on when V8 collects garbage.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A collection that frees less than this, in bytes, was the last one that was worth it. */
const NEXT_TO_NOTHING = 16 * 1024;
const MOST_COLLECTIONS = 10;

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

/**
 * Collects garbage until a further collection would free next to nothing, and returns the bytes that are held, on the
 * heap and outside of it. One collection is not enough: buffers that it finds are only freed by the next one.
 */
export function heldBytes(): number {
  let least = collected();
  for (let again = 1; again < MOST_COLLECTIONS; again++) {
    const held = collected();
    const freed = least - held;
    least = Math.min(least, held);
    if (freed < NEXT_TO_NOTHING) break;
  }
  return least;
}

function collected(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
