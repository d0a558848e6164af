// A bounded number of keys, each of which is remembered until a time of its own.

import type { Chance } from "#base/chance.ts";
import { KeyHash } from "./local/keys/key-hash.ts";
import type { ColumnShape } from "./local/keys/key-segment.ts";
import { type EvictionPolicy, KeyTable } from "./local/keys/key-table.ts";

/** The time at which a key expires. */
const SHAPE: ColumnShape = { words: 0, doubles: 1 };

export class ExpiringKeys implements EvictionPolicy {
  readonly #table: KeyTable;
  readonly #hash: KeyHash;

  constructor(maxKeys: number, chance: Chance) {
    this.#table = new KeyTable(SHAPE, maxKeys);
    this.#table.join(this);
    this.#hash = KeyHash.seeded(chance);
  }

  /** Remembers a key until a time; false when there is no room for it. */
  add(key: string, now: number, until: number): boolean {
    const hash = this.#hash;
    const table = this.#table;
    hash.of(key);
    if (!table.find(hash.lo, hash.hi) && !table.insert(hash.lo, hash.hi, now)) return false;
    table.doubles[table.d] = until;
    return true;
  }

  loss(now: number, doubles: Float64Array, d: number): number {
    return (doubles[d] ?? 0) <= now ? 0 : Number.POSITIVE_INFINITY;
  }

  forget(): void {
    // A key has nothing but its row.
  }
}
