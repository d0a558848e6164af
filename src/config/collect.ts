// Where sources put what they read: sound values by key path with their origin, faults, and notes. Sources
// come from the weakest to the strongest, so the last value put wins; a fault counts wherever it stands.

import type { ConfigError } from "./fault.ts";
import type { Table } from "./row.ts";
import { joined, type ProcessName } from "./tree.ts";
import { judge } from "./value.ts";

export interface Origin {
  readonly source: "default" | "file" | "dotenv" | "environment";
  /** File with line and column, or variable; empty for a default. */
  readonly where: string;
}

/** Something a person should know although it is no fault. */
export interface ConfigNote {
  readonly level: "info" | "warn";
  readonly path: string;
  readonly where: string;
  readonly message: string;
}

interface Put {
  readonly value: unknown;
  readonly origin: Origin;
}

const DEFAULT: Origin = { source: "default", where: "" };

export class Collected {
  readonly process: ProcessName;
  readonly errors: ConfigError[];
  readonly notes: ConfigNote[];
  readonly #values = new Map<string, Put>();

  constructor(process: ProcessName, errors: ConfigError[] = [], notes: ConfigNote[] = []) {
    this.process = process;
    this.errors = errors;
    this.notes = notes;
  }

  /** An empty set of values that shares faults and notes, for one item of a list. */
  apart(): Collected {
    return new Collected(this.process, this.errors, this.notes);
  }

  put(path: string, value: unknown, origin: Origin): void {
    this.#values.set(path, { value, origin });
  }

  fault(path: string, where: string, wanted: string, got: string): void {
    this.errors.push({ process: this.process, path, where, wanted, got });
  }

  note(level: ConfigNote["level"], path: string, where: string, message: string): void {
    this.notes.push({ level, path, where, message });
  }

  origin(path: string): Origin {
    return this.#values.get(path)?.origin ?? DEFAULT;
  }

  /**
   * Builds the frozen object of a table out of what was put and the defaults, and judges it as a whole.
   * `place` is where the object stands, for complaints about keys that were not put.
   */
  build(table: Table, path = "", place = ""): Readonly<Record<string, unknown>> {
    const built: Record<string, unknown> = {};
    for (const [key, row] of Object.entries(table.rows)) {
      const here = joined(path, key);
      if (row.kind === "object") {
        built[key] = this.build(row.table, here, place);
        continue;
      }
      const put = this.#values.get(here);
      built[key] = put === undefined ? defaultOf(row) : put.value;
    }
    this.#judge(table, path, place, built);
    return Object.freeze(built);
  }

  #judge(
    table: Table,
    path: string,
    place: string,
    built: Readonly<Record<string, unknown>>,
  ): void {
    const inside = (at: string) => at === path || path === "" || at.startsWith(`${path}.`);
    if (table.judge === undefined || this.errors.some((error) => inside(error.path))) return;
    // The table made both the object and its judge, so they fit; the type is lost in the tree.
    for (const { key, wanted, got } of table.judge(built as never)) {
      const at = joined(path, key);
      this.fault(at, this.origin(at).where || place, wanted, got);
    }
  }
}

/** A row's default as the typed tree holds it. */
export function defaultOf(row: Exclude<Table["rows"][string], { kind: "object" }>): unknown {
  switch (row.kind) {
    case "duration": {
      const judged = judge(row, row.default);
      return "value" in judged ? judged.value : 0;
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
