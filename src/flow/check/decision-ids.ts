// Ids of verdicts, which replies carry in a header.

import type { Chance } from "#base/chance.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** All pairs of digits of base64url, in order. */
const PAIRS: readonly string[] = [...DIGITS].flatMap((high) =>
  [...DIGITS].map((low) => high + low),
);

/**
 * Returns a function that makes ids of twelve characters of base64url: eight random ones, drawn again for every 16 million
 * ids, and a counter. V8 keeps longer sums of strings in two parts and copies them when they are read.
 */
export function decisionIds(chance: Chance): () => string {
  const four = (): string => {
    const drawn = Math.floor(chance() * PAIRS.length ** 2);
    return `${PAIRS[Math.floor(drawn / PAIRS.length)]}${PAIRS[drawn % PAIRS.length]}`;
  };
  let start = "";
  let random = "";
  let high = PAIRS.length;
  let low = PAIRS.length;
  return () => {
    if (low === PAIRS.length) {
      low = 0;
      high += 1;
      if (high >= PAIRS.length) {
        high = 0;
        random = four() + four();
      }
      start = random + PAIRS[high];
    }
    return start + PAIRS[low++];
  };
}
