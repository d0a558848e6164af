// Loads the configuration of a process: defaults < file < dotenv files < environment. Returns one frozen tree with the
// origin of every value, or throws all faults at once.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { listFiles, parse } from "dotenv-flow";
import { ConfigFault } from "./fault.ts";
import { Collected, type ConfigNote, type ValueOrigin } from "./read/collected.ts";
import { readYaml } from "./read/document.ts";
import { readVariables, type Variable } from "./read/variables.ts";
import { type ConfigOf, leaves, PROCESSES, type ProcessName } from "./tree.ts";

export type { Variable };

export interface ConfigSources {
  /** The environment. `process.env` is not read. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A YAML file, or a directory that holds `<service>.yaml`. Without it the default directory may be absent. */
  readonly configPath?: string | undefined;
  /** The process whose tree the same file may hold as well. Its keys are left to it. */
  readonly beside?: ProcessName | undefined;
  /** Directory of `.env` files; by default the working directory. */
  readonly dotenvDir?: string | undefined;
  /** More variables, such as those of a ConfigMap. They win over files, and the environment wins over them. */
  readonly variables?: readonly Variable[] | undefined;
}

export interface Loaded<P extends ProcessName = ProcessName> {
  readonly process: P;
  /** Deeply frozen. */
  readonly config: ConfigOf[P];
  /** The origin of each leaf's value, by dotted path. */
  readonly origins: ReadonlyMap<string, ValueOrigin>;
  /** Remarks to be logged at start: nulls, deprecated keys, ignored names, missing files. */
  readonly notes: readonly ConfigNote[];
}

/** The directory in which a process looks for its file by default. */
export function defaultConfigPath(process: ProcessName): string {
  return `/etc/sluice/${PROCESSES[process].service}/config`;
}

/** Throws a ConfigFault with the faults of all sources. */
export function loadConfig<P extends ProcessName>(process: P, sources: ConfigSources): Loaded<P> {
  const { table } = PROCESSES[process];
  const into = new Collected(process);
  readFile(into, process, sources);
  readDotenv(into, process, sources);
  readVariables(into, process, sources.variables ?? []);
  readVariables(into, process, environment(sources.env));
  const built = into.build(table);
  if (into.errors.length > 0) throw new ConfigFault(into.errors);
  const origins = new Map(leaves(table).map(({ path }) => [path, into.origin(path)]));
  // The tree was built from the table from which its type is inferred.
  const config = built as unknown as ConfigOf[P];
  return { process, config, origins, notes: into.notes };
}

function environment(env: ConfigSources["env"]): readonly Variable[] {
  return Object.entries(env).flatMap(([name, text]) =>
    text === undefined ? [] : [{ name, text, origin: { source: "environment", where: name } }],
  );
}

/** The code of a system error; its message would repeat the path. */
function systemErrorCode(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown ? String(thrown.code) : "an unreadable file";
}

function readFile(
  into: Collected,
  process: ProcessName,
  { configPath: given, beside }: ConfigSources,
): void {
  const name = `${PROCESSES[process].service}.yaml`;
  const path = resolve(given ?? defaultConfigPath(process));
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    if (given === undefined)
      into.note("info", "", path, "no configuration directory; using defaults and environment");
    else into.fault("", path, "a file or a directory", "nothing there");
    return;
  }
  const file = found.isDirectory() ? join(path, name) : path;
  if (found.isDirectory() && statSync(file, { throwIfNoEntry: false }) === undefined) {
    const others = yamlFiles(path).filter((other) => other !== name);
    const beside = others.length === 0 ? "" : ` (not read: ${others.join(", ")})`;
    into.note("warn", "", file, `no such file; using defaults and environment${beside}`);
    return;
  }
  if (!statSync(file).isFile()) {
    into.fault("", file, "a regular file", "a directory, pipe or device");
    return;
  }
  try {
    // In a directory, each process has a file of its own.
    const other = found.isDirectory() || beside === undefined ? undefined : PROCESSES[beside].table;
    readYaml(into, PROCESSES[process].table, file, readFileSync(file, "utf8"), other);
  } catch (thrown) {
    into.fault("", file, "a readable file", systemErrorCode(thrown));
  }
}

function yamlFiles(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((name) => /\.ya?ml$/.test(name))
      .sort();
  } catch {
    return [];
  }
}

/** Reads dotenv files in the order of dotenv-flow; each one overrides those before it. */
function readDotenv(
  into: Collected,
  process: ProcessName,
  { env, dotenvDir }: ConfigSources,
): void {
  const { NODE_ENV: mode } = env;
  const files = listFiles({
    path: resolve(dotenvDir ?? "."),
    ...(mode === undefined || mode === "" ? {} : { node_env: mode }),
  });
  const merged = new Map<string, Variable>();
  for (const file of files) {
    try {
      for (const variable of dotenvVariables(into, process, file))
        merged.set(variable.name, variable);
    } catch (thrown) {
      into.fault("", file, "a readable dotenv file", systemErrorCode(thrown));
    }
  }
  readVariables(into, process, [...merged.values()]);
}

/** The parser skips lines that it does not understand. Here such a line is a fault if it names a setting. */
function dotenvVariables(into: Collected, process: ProcessName, file: string): readonly Variable[] {
  const parsed = parse(file);
  const lines = new Map<string, number>();
  const { prefix } = PROCESSES[process];
  const assigned = new RegExp(`^\\s*(?:export\\s+)?(${prefix}\\w*)`);
  for (const [at, line] of readFileSync(file, "utf8")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const name = assigned.exec(line)?.[1];
    if (name === undefined) continue;
    lines.set(name, at + 1);
    if (!Object.hasOwn(parsed, name))
      into.fault("", `${file}:${at + 1} ${name}`, "NAME=value", "another form");
  }
  return Object.entries(parsed).map(([name, text]) => ({
    name,
    text,
    origin: { source: "dotenv", where: `${file}:${lines.get(name) ?? 1} ${name}` },
  }));
}
