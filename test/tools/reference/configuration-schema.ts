// The JSON Schema (2020-12) of a configuration file, for editors and for checks before a deployment. It covers what single
// rows say; rules between keys are checked only by the loader.

import type { TextFormat } from "#config/table/format.ts";
import type { DurationRow, LeafRow, Row, Table } from "#config/table/row.ts";
import { wantedOf } from "#config/table/value.ts";
import { PROCESSES, type ProcessName } from "#config/tree.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

type Definitions = Record<string, JsonSchema>;

const UNIT = "(ns|us|µs|ms|s|m|h)";
const ANY_PART = `(\\d+(\\.\\d+)?${UNIT})`;
const PART_ABOVE_0 = `((\\d*[1-9]\\d*(\\.\\d+)?|\\d+\\.\\d*[1-9]\\d*)${UNIT})`;

/** The schema of `<service>.yaml`. */
export function configSchema(process: ProcessName): JsonSchema {
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

function objectSchema(table: Table, definitions: Definitions): JsonSchema {
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

/** Named objects are defined once and referred to; unnamed groups are written in place. */
function tableSchema(table: Table, definitions: Definitions): JsonSchema {
  if (table.name === "") return objectSchema(table, definitions);
  if (definitions[table.name] === undefined) {
    definitions[table.name] = {};
    definitions[table.name] = objectSchema(table, definitions);
  }
  return { $ref: `#/$defs/${table.name}` };
}

function rowSchema(row: Row, definitions: Definitions): JsonSchema {
  if (row.kind === "object") return tableSchema(row.table, definitions);
  return {
    description: `${row.about} Wanted: ${wantedOf(row)}.`,
    ...leafSchema(row, definitions),
    ...(row.deprecated === undefined ? {} : { deprecated: true }),
    ...(row.secret === undefined ? {} : { writeOnly: true }),
  };
}

/** Helm's expressions have no look-ahead, so a duration above 0 is one with a part above 0 somewhere. */
function durationSchema(least: DurationRow["least"]): JsonSchema {
  if (least === "any" || least === "0s") {
    const sign = least === "any" ? "[+-]?" : "\\+?";
    const pattern = `^${sign}(0|${ANY_PART}+)$`;
    return { type: ["string", "integer", "null"], pattern, minimum: 0, maximum: 0 };
  }
  return {
    type: ["string", "null"],
    pattern: `^\\+?${ANY_PART}*${PART_ABOVE_0}${ANY_PART}*$`,
  };
}

function leafSchema(row: LeafRow, definitions: Definitions): JsonSchema {
  switch (row.kind) {
    case "bool":
      return { type: ["boolean", "null"], default: row.default };
    case "number": {
      const type = row.type === "float64" ? "number" : "integer";
      return { type: [type, "null"], default: row.default, ...boundsOf(row) };
    }
    case "string":
      return { type: ["string", "null"], ...patternOf(row.format), default: row.default };
    case "choice":
      return { enum: [...row.values, null], default: row.default };
    case "duration":
      return { ...durationSchema(row.least), default: row.default };
    case "strings":
      return {
        type: ["array", "null"],
        items: { type: "string", ...patternOf(row.format) },
        default: row.default,
      };
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

function patternOf({ pattern }: TextFormat): JsonSchema {
  return pattern === undefined ? {} : { pattern };
}

/** The bounds, where they are narrower than those of the type. */
function boundsOf({ min, max }: { readonly min: number; readonly max: number }): JsonSchema {
  return {
    ...(Math.abs(min) >= Number.MAX_SAFE_INTEGER ? {} : { minimum: min }),
    ...(Math.abs(max) >= Number.MAX_SAFE_INTEGER ? {} : { maximum: max }),
  };
}
