// Loads the configuration of a process: defaults < file < dotenv files < environment. Gives one frozen
// tree with the origin of every leaf, or throws every fault at once.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { listFiles, parse } from "dotenv-flow";
import { Collected, type ConfigNote, type Origin } from "./collect.ts";
import { readYaml } from "./document.ts";
import { ConfigFault } from "./fault.ts";
import { readVariables, type Variable } from "./names.ts";
import { type ConfigOf, leaves, PROCESSES, type ProcessName } from "./tree.ts";

export interface Sources {
  /** The environment; nothing else is asked for it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A YAML file, or a directory that holds `<service>.yaml`. Without it the default directory may be absent. */
  readonly configPath?: string | undefined;
  /** Where `.env` files are looked for; the working directory unless told. */
  readonly dotenvDir?: string | undefined;
}

export interface Loaded<P extends ProcessName = ProcessName> {
  readonly process: P;
  /** Frozen through and through. */
  readonly config: ConfigOf[P];
  /** Where each leaf's value came from, by dotted path. */
  readonly origins: ReadonlyMap<string, Origin>;
  /** To be logged at start: nulls, deprecated keys, ignored names, files that are not there. */
  readonly notes: readonly ConfigNote[];
}

/** Where a process looks for its file when it is not told. */
export function defaultConfigPath(process: ProcessName): string {
  return `/etc/sluice/${PROCESSES[process].service}/config`;
}

/** Throws a ConfigFault that holds every fault of every source. */
export function loadConfig<P extends ProcessName>(process: P, sources: Sources): Loaded<P> {
  const { table } = PROCESSES[process];
  const into = new Collected(process);
  readFile(into, process, sources.configPath);
  readDotenv(into, process, sources);
  readVariables(into, process, environment(sources.env));
  const built = into.build(table);
  if (into.errors.length > 0) throw new ConfigFault(into.errors);
  const origins = new Map(leaves(table).map(({ path }) => [path, into.origin(path)]));
  // The tree was built from the very table that its type is inferred from.
  const config = built as unknown as ConfigOf[P];
  return { process, config, origins, notes: into.notes };
}

function environment(env: Sources["env"]): readonly Variable[] {
  return Object.entries(env).flatMap(([name, text]) =>
    text === undefined ? [] : [{ name, text, origin: { source: "environment", where: name } }],
  );
}

/** The system's word for what went wrong with a file, without the path that it repeats. */
function reasonOf(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown ? String(thrown.code) : "an unreadable file";
}

function readFile(into: Collected, process: ProcessName, told: string | undefined): void {
  const name = `${PROCESSES[process].service}.yaml`;
  const path = resolve(told ?? defaultConfigPath(process));
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    if (told === undefined)
      into.note("info", "", path, "no configuration directory; defaults and environment hold");
    else into.fault("", path, "a file or a directory", "nothing there");
    return;
  }
  const file = found.isDirectory() ? join(path, name) : path;
  if (found.isDirectory() && statSync(file, { throwIfNoEntry: false }) === undefined) {
    const others = yamlFiles(path).filter((other) => other !== name);
    const beside = others.length === 0 ? "" : ` (not read: ${others.join(", ")})`;
    into.note("warn", "", file, `no such file; defaults and environment hold${beside}`);
    return;
  }
  if (!statSync(file).isFile()) {
    into.fault("", file, "a regular file", "a directory, pipe or device");
    return;
  }
  try {
    readYaml(into, PROCESSES[process].table, file, readFileSync(file, "utf8"));
  } catch (thrown) {
    into.fault("", file, "a readable file", reasonOf(thrown));
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

/** dotenv files in the order that dotenv-flow gives them; each overrides the ones before. */
function readDotenv(into: Collected, process: ProcessName, { env, dotenvDir }: Sources): void {
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
      into.fault("", file, "a readable dotenv file", reasonOf(thrown));
    }
  }
  readVariables(into, process, [...merged.values()]);
}

/** The parser skips lines that it does not understand; ones that name a setting are faults here. */
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
