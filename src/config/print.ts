// Prints the tree in force, for people (YAML) or scripts (JSON): every key, its value and the source of the value. Secrets,
// and credentials inside addresses, appear as `***`.

import { reasonInForce, type Surroundings } from "./ineffective.ts";
import type { Loaded } from "./load.ts";
import { type LeafRow, object, type Row, type Table } from "./table/row.ts";
import { plainValue, withoutCredentials } from "./table/value.ts";
import { joined, PROCESSES } from "./tree.ts";

/** A value in printable form: durations as text, secrets masked. */
function shown(row: Row, value: unknown): unknown {
  return plainValue(row, value, (leaf, each) =>
    leaf.secret === true && !isEmpty(each) ? "***" : masked(each),
  );
}

function isEmpty(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length === 0;
  return value === "";
}

function masked(value: unknown): unknown {
  if (typeof value === "string") return withoutCredentials(value);
  return Array.isArray(value) ? value.map(masked) : value;
}

type Environment = Surroundings["env"];

/** YAML text. The line of each key ends in a comment that names the source of its value, and says if it has no effect. */
export function printYaml(loaded: Loaded, env: Environment = {}): string {
  const lines: string[] = [];
  const { table } = PROCESSES[loaded.process];
  const noteOf = (path: string, row: LeafRow) => {
    const why = reasonInForce(loaded, path, { role: "process", env });
    const origin = originText(loaded, path, row);
    return why === undefined ? origin : `${origin}; no effect: ${why}`;
  };
  printObject(noteOf, table, loaded.config, "", lines);
  return `${lines.join("\n")}\n`;
}

function printObject(
  noteOf: (path: string, row: LeafRow) => string,
  table: Table,
  settings: unknown,
  path: string,
  lines: string[],
): void {
  const values = settings as Readonly<Record<string, unknown>>;
  const indent = "  ".repeat(path === "" ? 0 : path.split(".").length);
  for (const key of Object.keys(table.rows).sort()) {
    const row = table.rows[key];
    if (row === undefined) continue;
    const here = joined(path, key);
    if (row.kind === "object") {
      lines.push(`${indent}${key}:`);
      printObject(noteOf, row.table, values[key], here, lines);
    } else {
      const text = JSON.stringify(shown(row, values[key]));
      lines.push(`${indent}${key}: ${text} # ${noteOf(here, row)}`);
    }
  }
}

function originText(loaded: Loaded, path: string, row: LeafRow): string {
  const origin = loaded.origins.get(path);
  const from =
    origin === undefined || origin.where === "" ? "default" : `${origin.source} ${origin.where}`;
  return row.deprecated === undefined ? from : `${from} (deprecated)`;
}

/** JSON text: `{process, config, origins, without_effect}`, the last two by dotted key path. */
export function printJson(loaded: Loaded, env: Environment = {}): string {
  const { table } = PROCESSES[loaded.process];
  const config = shown(object(table), loaded.config);
  const origins = Object.fromEntries(loaded.origins);
  const around: Surroundings = { role: "process", env };
  const without_effect = Object.fromEntries(
    [...loaded.origins.keys()].flatMap((path) => {
      const why = reasonInForce(loaded, path, around);
      return why === undefined ? [] : [[path, why]];
    }),
  );
  const printed = { process: loaded.process, config, origins, without_effect };
  return `${JSON.stringify(printed, undefined, 2)}\n`;
}
