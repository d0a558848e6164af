// Collects what all sources contain: valid values by key path with their origin, faults, and notes. Sources are read from
// the weakest to the strongest, so the last value wins; a fault counts in any source.

import type { ConfigError } from "../fault.ts";
import type { Table } from "../table/row.ts";
import { validateValue } from "../table/value.ts";
import { joined, type ProcessName } from "../tree.ts";

export interface ValueOrigin {
  readonly source: "default" | "file" | "dotenv" | "environment";
  /** File with line and column, or variable; empty for a default. */
  readonly where: string;
}

/** A remark about something that is no fault. */
export interface ConfigNote {
  readonly level: "info" | "warn";
  readonly path: string;
  readonly where: string;
  readonly message: string;
}

interface Entry {
  readonly value: unknown;
  readonly origin: ValueOrigin;
}

const DEFAULT: ValueOrigin = { source: "default", where: "" };

export class Collected {
  readonly process: ProcessName;
  readonly errors: ConfigError[];
  readonly notes: ConfigNote[];
  readonly #values = new Map<string, Entry>();

  constructor(process: ProcessName, errors: ConfigError[] = [], notes: ConfigNote[] = []) {
    this.process = process;
    this.errors = errors;
    this.notes = notes;
  }

  /** An empty set of values that shares faults and notes with this one, for one item of a list. */
  child(): Collected {
    return new Collected(this.process, this.errors, this.notes);
  }

  set(path: string, value: unknown, origin: ValueOrigin): void {
    this.#values.set(path, { value, origin });
  }

  fault(path: string, where: string, wanted: string, got: string): void {
    this.errors.push({ process: this.process, path, where, wanted, got });
  }

  note(level: ConfigNote["level"], path: string, where: string, message: string): void {
    this.notes.push({ level, path, where, message });
  }

  origin(path: string): ValueOrigin {
    return this.#values.get(path)?.origin ?? DEFAULT;
  }

  /**
   * Builds the frozen object of a table from the collected values and the defaults, and checks the rules between its
   * keys. `place` is the position of the object, for faults in keys that were not set.
   */
  build(table: Table, path = "", place = ""): Readonly<Record<string, unknown>> {
    const built: Record<string, unknown> = {};
    for (const [key, row] of Object.entries(table.rows)) {
      const here = joined(path, key);
      if (row.kind === "object") {
        built[key] = this.build(row.table, here, place);
        continue;
      }
      const entry = this.#values.get(here);
      built[key] = entry === undefined ? defaultOf(row) : entry.value;
    }
    this.#fitDefaults(table, path, built);
    this.#check(table, path, place, built);
    return Object.freeze(built);
  }

  #fitDefaults(table: Table, path: string, built: Record<string, unknown>): void {
    const given = { ...built };
    for (const [key, row] of Object.entries(table.rows)) {
      if (row.kind !== "number" || row.fitting === undefined) continue;
      if (!this.#values.has(joined(path, key))) built[key] = row.fitting(given);
    }
  }

  #check(
    table: Table,
    path: string,
    place: string,
    built: Readonly<Record<string, unknown>>,
  ): void {
    const inside = (at: string) => at === path || path === "" || at.startsWith(`${path}.`);
    if (table.check === undefined || this.errors.some((error) => inside(error.path))) return;
    // The object was built from the same table, so it has the type that the check expects.
    for (const { key, wanted, because, got } of table.check(built as never)) {
      const at = joined(path, key);
      const reason = because === undefined ? "" : `, because ${this.#whereSet(path, because)}`;
      this.fault(at, this.origin(at).where || place, wanted + reason, got);
    }
  }

  /** Says that a key is set, and names the place. */
  #whereSet(path: string, key: string): string {
    const { where } = this.origin(joined(path, key));
    return where === "" ? `${key} is set` : `${key} is set (${where})`;
  }
}

/** The default of a row in the form of the typed tree. */
function defaultOf(row: Exclude<Table["rows"][string], { kind: "object" }>): unknown {
  switch (row.kind) {
    case "duration": {
      const validated = validateValue(row, row.default);
      return "value" in validated ? validated.value : 0;
    }
    case "strings":
    case "floats":
      return Object.freeze([...row.default]);
    case "headers":
      return Object.freeze({});
    case "objects":
      return Object.freeze([]);
    case "bool":
    case "number":
    case "string":
    case "choice":
      return row.default;
  }
}
