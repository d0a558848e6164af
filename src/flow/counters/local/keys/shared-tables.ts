// The key tables of limiters that are always asked together. They share rows, so that a check hashes and looks up
// its key once, and finds the numbers of all of them beside each other.

import type { ColumnShape } from "./key-segment.ts";
import { type Column, type EvictionPolicy, KeyTable } from "./key-table.ts";

/** Most columns of a table: bounds the size of a row, and with it the time that moving a segment takes. */
export const MAX_COLUMNS = 16;

export class SharedTables {
  readonly #shape: ColumnShape;
  readonly #maxKeys: number;
  /** The tables that have columns, by group. */
  readonly #tables = new Map<string, readonly KeyTable[]>();

  /** Each table tells `maxKeys` keys apart. */
  constructor(shape: ColumnShape, maxKeys: number) {
    this.#shape = shape;
    this.#maxKeys = maxKeys;
  }

  /** A column in a table of the group. Members of a group should be asked about the same keys: a row has room for all. */
  join(group: string, owner: EvictionPolicy): Column {
    const tables = this.#tables.get(group) ?? [];
    const roomy = tables.find(({ width }) => width < MAX_COLUMNS);
    const table = roomy ?? new KeyTable(this.#shape, this.#maxKeys);
    if (roomy === undefined) this.#tables.set(group, [...tables, table]);
    return table.join(owner);
  }

  /** Frees a column, and with the last one its table. */
  leave(group: string, column: Column): void {
    column.table.leave(column);
    const left = this.#tables.get(group)?.filter(({ width }) => width > 0) ?? [];
    if (left.length > 0) this.#tables.set(group, left);
    else this.#tables.delete(group);
  }
}
