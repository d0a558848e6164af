// The layout of a token bucket in memory: two floating-point numbers, which `token-bucket.ts` computes with, and a word that
// says whether they mean anything. Buckets of limiters that are asked together share a row of one table.

import type { KeyTable } from "./keys/key-table.ts";
import { SharedTables } from "./keys/shared-tables.ts";

/** The columns of a bucket: state (word), available and mark (doubles). A row with one bucket has 32 bytes. */
const SHAPE = { words: 1, doubles: 2 } as const;

/** State of a bucket that was never used: it is full, and its other numbers mean nothing. */
export const UNUSED = 0;
/** State of a bucket that is counted here. */
export const USED = 1;
/** State of a bucket that another agent counts: a copy, of which nothing was taken here. */
export const COPY = 2;

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
  /** A temporary bucket, for keys without a row and for reads that must not change a row. */
  readonly scratch = new BucketRow();

  constructor(maxKeys: number) {
    super(SHAPE, maxKeys);
  }
}
