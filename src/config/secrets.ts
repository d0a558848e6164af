// The secrets that a configuration holds, so that they can be kept out of what leaves the process.

import type { Loaded } from "./load.ts";
import type { Table } from "./table/row.ts";
import { PROCESSES } from "./tree.ts";

/** The texts of all keys that are secret, wherever they were set. Empty ones are left out. */
export function secretsOf({
  process,
  config,
}: Pick<Loaded, "process" | "config">): readonly string[] {
  return [...secretsIn(PROCESSES[process].table, config)];
}

function* secretsIn(table: Table, settings: object): Generator<string> {
  const values = new Map<string, unknown>(Object.entries(settings));
  for (const [key, row] of Object.entries(table.rows)) {
    const value = values.get(key);
    if (row.kind === "object") {
      if (typeof value === "object" && value !== null) yield* secretsIn(row.table, value);
    } else if (row.kind === "objects") {
      for (const item of Array.isArray(value) ? value : []) yield* secretsIn(row.table, item);
    } else if (row.secret === true) yield* textsIn(value);
  }
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === "string") {
    if (value !== "") yield value;
  } else if (typeof value === "object" && value !== null)
    for (const inner of Object.values(value)) yield* textsIn(inner);
}
