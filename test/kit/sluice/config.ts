// Configuration for tests: trees without a file, and a record of which keys a process really reads.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { getCallSites } from "node:util";
import { ineffectiveReason, type TreeRole } from "#config/ineffective.ts";
import { type Loaded, loadConfig } from "#config/load.ts";
import type { Table } from "#config/table/row.ts";
import { joined, leaves, PROCESSES, type ProcessName } from "#config/tree.ts";

/** The keys of a process that have no effect, however others are set. */
export function ineffectiveKeys(process: ProcessName, role?: TreeRole): readonly string[] {
  return leaves(PROCESSES[process].table)
    .map(({ path }) => path)
    .filter((path) => ineffectiveReason(process, path, role) !== undefined);
}

/** Loads from these variables alone: no file, no dotenv files, nothing of the machine. */
export function configOf<P extends ProcessName>(
  process: P,
  env: Readonly<Record<string, string>> = {},
): Loaded<P> {
  const empty = mkdtempSync(join(tmpdir(), "sluice-config-"));
  try {
    return loadConfig(process, { env, configPath: empty, dotenvDir: empty });
  } finally {
    rmSync(empty, { recursive: true });
  }
}

/** Paths of source files below `src/` by the dotted path of the leaf that they read. */
export type Reads = ReadonlyMap<string, ReadonlySet<string>>;

export interface Recorded<C> {
  /** Equal to the given tree; pass it to the code whose reads are to be recorded. */
  readonly config: C;
  /** Dotted paths of the leaves read so far, each with the source files whose code looked at it. */
  readonly read: Reads;
}

/** Wraps a tree so that every leaf that is looked at is noted. Copying an object reads all of it. */
export function recordReads<C extends object>(process: ProcessName, config: C): Recorded<C> {
  const read = new Map<string, Set<string>>();
  const wrapped = wrap(PROCESSES[process].table, config, "", read);
  // Built key by key from the same table as the tree itself.
  return { config: wrapped as unknown as C, read };
}

const SOURCE = pathToFileURL(join(import.meta.dirname, "../../../src/")).href;

function wrap(
  table: Table,
  settings: object,
  path: string,
  read: Map<string, Set<string>>,
): object {
  const wrapped = {};
  const values = new Map<string, unknown>(Object.entries(settings));
  for (const [key, row] of Object.entries(table.rows)) {
    const here = joined(path, key);
    const value = values.get(key);
    if (row.kind === "object" && typeof value === "object" && value !== null) {
      Object.defineProperty(wrapped, key, {
        enumerable: true,
        value: wrap(row.table, value, here, read),
      });
      continue;
    }
    const get = () => {
      const readers = read.get(here) ?? new Set();
      read.set(here, readers);
      const [, reader] = getCallSites(2);
      if (reader !== undefined) readers.add(reader.scriptName.replace(SOURCE, ""));
      return value;
    };
    Object.defineProperty(wrapped, key, { enumerable: true, get });
  }
  return wrapped;
}
