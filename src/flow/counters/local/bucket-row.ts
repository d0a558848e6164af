// The layout of a token bucket in memory: two floating-point numbers, which `token-bucket.ts` computes with, and the
// time at which it was last used. Buckets of limiters that are asked together share a row of one table.

import type { BucketParams } from "../counter-engine.ts";
import type { KeyTable } from "./keys/key-table.ts";
import { SharedTables } from "./keys/shared-tables.ts";

/** Unit of "last seen": 31 bits hold six years of them. */
export const SEEN_MS = 100;

/** A bucket in a row: last seen; available, mark. A row with one has 32 bytes. */
const SHAPE = { words: 1, doubles: 2 } as const;

/** "Last seen" of a bucket that was never used: it is full, and its other numbers mean nothing. */
export const UNUSED = 0;

/** Bit of "last seen" of a bucket that another agent counts: a copy, of which nothing was taken here. */
export const COPY = 0x80000000;

/** One bucket outside of a table. */
export class BucketRow {
  readonly doubles = new Float64Array(SHAPE.doubles);
  readonly words = new Uint32Array(SHAPE.words);
  readonly d = 0;
  readonly w = 0;

  /** Copies the bucket at a place of a row. */
  copy({ doubles, d, words, w }: Pick<KeyTable, "doubles" | "d" | "words" | "w">, place = 0): void {
    this.doubles[0] = doubles[d + 2 * place] ?? 0;
    this.doubles[1] = doubles[d + 2 * place + 1] ?? 0;
    this.words[0] = words[w + place] ?? UNUSED;
  }
}

/** The place of a bucket: arrays and offsets. */
export type BucketPlace = Pick<KeyTable, "doubles" | "d" | "words" | "w">;

/** The bucket of a column in the row that the table points to. */
export function placeIn(table: KeyTable, place: number): BucketPlace {
  const { doubles, words, d, w } = table;
  return { doubles, words, d: d + 2 * place, w: w + place };
}

/** The tables of all rate limiters of a rulebook. */
export class BucketTables extends SharedTables {
  /** The bucket that is worked on where a key has no row, or its own must not change. */
  readonly scratch = new BucketRow();

  constructor(maxKeys: number) {
    super(SHAPE, maxKeys);
  }
}

/** Certainly unused for longer than allowed: the unit is coarse, so one more unit must have passed. */
export function isIdle(seen: number, { maxIdleMs }: BucketParams, seenNow: number): boolean {
  return maxIdleMs > 0 && (seenNow - (seen & ~COPY) - 1) * SEEN_MS > maxIdleMs;
}
