// The variables that would give another process the settings of a configuration.

import type { Loaded } from "./load.ts";
import { nameOf } from "./read/variables.ts";
import { secretsOf } from "./secrets.ts";
import type { Row } from "./table/row.ts";
import { plainValue } from "./table/value.ts";
import { leaves, PROCESSES, type ProcessName } from "./tree.ts";

export interface SetVariable {
  /** Dotted key path. */
  readonly path: string;
  readonly name: string;
  /** Text that is read as the value. */
  readonly text: string;
  /** Origin of the value, for people: a variable, or a file with its line. */
  readonly where: string;
  /** True if the key is secret, or its value holds something that is. */
  readonly isSecret: boolean;
}

/** The name of the variable that sets a key; undefined where the process has no such key. */
export function variableOf(process: ProcessName, path: string): string | undefined {
  const isKey = leaves(PROCESSES[process].table).some((leaf) => leaf.path === path);
  return isKey ? nameOf(process, path, "leaf") : undefined;
}

/** One variable for each key that was set, in the order of the keys; defaults are left out. */
export function variablesOf(loaded: Loaded): readonly SetVariable[] {
  const secrets = secretsOf(loaded);
  return leaves(PROCESSES[loaded.process].table).flatMap(({ path, row }) => {
    const origin = loaded.origins.get(path);
    if (origin === undefined || origin.source === "default") return [];
    const text = variableText(row, valueAt(loaded.config, path));
    const isSecret =
      text !== "" && (row.secret === true || secrets.some((one) => text.includes(one)));
    const name = nameOf(loaded.process, path, "leaf");
    return [{ path, name, text, where: origin.where, isSecret }];
  });
}

function valueAt(settings: object, path: string): unknown {
  let at: unknown = settings;
  for (const key of path.split(".")) at = (at as Readonly<Record<string, unknown>>)[key];
  return at;
}

function variableText(row: Row, value: unknown): string {
  const plain = plainValue(row, value);
  return typeof plain === "string" ? plain : JSON.stringify(plain);
}
