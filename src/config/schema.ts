// The JSON Schema (2020-12) of a process's file, for editors and for checks before a file is shipped. It
// says what a row says; rules between keys stay with the loader.

import type { LeafRow, Row, Table } from "./row.ts";
import { PROCESSES, type ProcessName } from "./tree.ts";
import { wantedOf } from "./value.ts";

export type Schema = Readonly<Record<string, unknown>>;

type Definitions = Record<string, Schema>;

const DURATION = "^[+-]?(0|(\\d+(\\.\\d+)?(ns|us|µs|ms|s|m|h))+)$";

/** The schema of `<service>.yaml`. */
export function configSchema(process: ProcessName): Schema {
  const { service, table } = PROCESSES[process];
  const definitions: Definitions = {};
  const root = objectSchema(table, definitions);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: `${service}.yaml`,
    description: `Configuration of the ${process}. A null counts as not set.`,
    ...root,
    $defs: Object.fromEntries(Object.entries(definitions).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

function objectSchema(table: Table, definitions: Definitions): Schema {
  const properties = Object.keys(table.rows)
    .sort()
    .flatMap((key) => {
      const row = table.rows[key];
      return row === undefined ? [] : [[key, rowSchema(row, definitions)] as const];
    });
  return {
    type: ["object", "null"],
    ...(table.about === "" ? {} : { description: table.about }),
    additionalProperties: false,
    properties: Object.fromEntries(properties),
  };
}

/** Named objects are defined once and referred to; mere groupings stand in place. */
function tableSchema(table: Table, definitions: Definitions): Schema {
  if (table.name === "") return objectSchema(table, definitions);
  if (definitions[table.name] === undefined) {
    definitions[table.name] = {};
    definitions[table.name] = objectSchema(table, definitions);
  }
  return { $ref: `#/$defs/${table.name}` };
}

function rowSchema(row: Row, definitions: Definitions): Schema {
  if (row.kind === "object") return tableSchema(row.table, definitions);
  return {
    description: `${row.about} Wanted: ${wantedOf(row)}.`,
    ...leafSchema(row, definitions),
    ...(row.deprecated === undefined ? {} : { deprecated: true }),
    ...(row.secret === undefined ? {} : { writeOnly: true }),
  };
}

function leafSchema(row: LeafRow, definitions: Definitions): Schema {
  switch (row.kind) {
    case "bool":
      return { type: ["boolean", "null"], default: row.default };
    case "number": {
      const type = row.type === "float64" ? "number" : "integer";
      return { type: [type, "null"], default: row.default, ...boundsOf(row) };
    }
    case "string":
      return { type: ["string", "null"], default: row.default };
    case "choice":
      return { enum: [...row.values, null], default: row.default };
    case "duration":
      return {
        type: ["string", "integer", "null"],
        pattern: DURATION,
        minimum: 0,
        maximum: 0,
        default: row.default,
      };
    case "strings":
      return { type: ["array", "null"], items: { type: "string" }, default: row.default };
    case "floats": {
      const items = { type: "number", ...boundsOf(row) };
      return { type: ["array", "null"], items, default: row.default };
    }
    case "headers": {
      const values = { type: "array", items: { type: "string" } };
      return { type: ["object", "null"], additionalProperties: values };
    }
    case "objects": {
      const items = { ...tableSchema(row.table, definitions) };
      return { type: ["array", "null"], items, default: [] };
    }
  }
}

/** Bounds that say more than the type does. */
function boundsOf({ min, max }: { readonly min: number; readonly max: number }): Schema {
  return {
    ...(Math.abs(min) >= Number.MAX_SAFE_INTEGER ? {} : { minimum: min }),
    ...(Math.abs(max) >= Number.MAX_SAFE_INTEGER ? {} : { maximum: max }),
  };
}
