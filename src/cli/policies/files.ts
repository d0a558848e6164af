// Reads policy documents from files, directories or standard input, and compiles them as the controller would. Shared by
// all commands that take policies.

import { readdir, stat } from "node:fs/promises";
import { basename, join, parse, resolve } from "node:path";
import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { queriesOf } from "#circuit/queries.ts";
import { sha256 } from "#controller/digest.ts";
import { ignoredFiles, isDocument, MAX_BYTES, WANTED_NAME } from "#controller/policy-directory.ts";
import type { JsonObject } from "#policy/compiled.ts";
import { Report } from "#policy/document/finding.ts";
import { plain, START } from "#policy/document/tree.ts";
import type { Warning } from "#policy/document/warning.ts";
import { checkDynamicConfig, policyOfDynamicFile, readDynamicFile } from "#policy/dynamic.ts";
import { findingLine } from "#policy/format.ts";
import { type CompiledSet, compileSet, type PolicyText } from "#policy/set.ts";
import { needsAutoScale, unmetNeeds } from "#policy/unmet-needs.ts";
import type { Dialect } from "#promql/result.ts";
import { readTextFile } from "#runtime/life/text-file.ts";
import { isSeriesName } from "#telemetry/metrics/samples.ts";
import { readSource, type Terminal } from "../terminal.ts";

/**
 * Compiles all named documents as one set. Files of dynamic configuration, which a directory or a shell's `*.yaml`
 * may bring along, are skipped. Throws a Fault INVALID_ARGUMENT if there is no policy, or one that names
 * every file that cannot be read.
 */
export async function compileFiles(
  command: string,
  names: readonly string[],
  terminal: Terminal,
  setting: Setting = {},
): Promise<CompiledSet> {
  return (await readAndCompile(command, names, terminal, setting)).set;
}

/** The settings of the controller that would run the policies. */
export interface Setting {
  /**
   * The engine that answers queries. `checkFiles` without it tries both, and warns of queries that only Prometheus can
   * answer.
   */
  readonly queries?: Dialect | undefined;
  /** The group of selectors that name none: `policies.default_agent_group` of the controller. */
  readonly agentGroup?: string | undefined;
  /** The namespace to which the policies are confined (`policies.namespaces`); undefined where they may reach everything. */
  readonly namespace?: string | undefined;
  /** The name of a policy from standard input whose document has none; `stdin` unless given. */
  readonly stdinName?: string | undefined;
}

/** Options of `checkFiles`. */
interface Judging extends Setting {
  /** Labels that callers send with their checks. */
  readonly labels: readonly string[];
  /** True if the controllers scale Kubernetes objects; false where that is not known. */
  readonly scales?: boolean;
}

export interface Checked extends CompiledSet {
  readonly texts: readonly PolicyText[];
  /** Contents of the files of dynamic configuration that have no fault, by policy. */
  readonly configs: ReadonlyMap<string, DynamicFile>;
}

/** A file of dynamic configuration. */
export interface DynamicFile {
  readonly source: string;
  readonly config: JsonObject;
}

/**
 * The same, with the texts, and the findings and warnings of the files of dynamic configuration, and with warnings of everything
 * that the policies need and neither they nor Sluice have.
 */
export async function checkFiles(
  command: string,
  names: readonly string[],
  terminal: Terminal,
  judging: Judging,
): Promise<Checked> {
  const { queries } = judging;
  const { set, texts, dynamic } = await readAndCompile(command, names, terminal, judging, true);
  const findings = [...set.findings];
  const warnings = [
    ...set.warnings,
    ...missing(set, judging),
    ...(queries === undefined ? needingPrometheus(texts, set, judging.agentGroup) : []),
    ...(await ignoredIn(names)),
  ];
  const seen = new Set<string>();
  const configs = new Map<string, DynamicFile>();
  for (const { source, text } of dynamic) {
    const name = policyOfDynamicFile(basename(source)) ?? source;
    const report = new Report(source);
    const config = checkDynamicFile(name, text, set, seen, report);
    if (config !== undefined) configs.set(name, { source, config });
    findings.push(...report.findings);
    warnings.push(...report.warnings);
  }
  return { policies: set.policies, findings, warnings, texts, configs };
}

/** Names that no policy of the set defines and, where Sluice answers queries itself, that it does not measure. */
function missing(
  { policies }: CompiledSet,
  { queries, labels, scales = false }: Judging,
): readonly Warning[] {
  const unmet = unmetNeeds(policies, {
    knowsMetric: queries === "own" ? isSeriesName : undefined,
    labels,
    scaling: scales ? undefined : needsAutoScale,
  });
  return policies.flatMap(({ source, name }) =>
    (unmet.get(name) ?? []).map((warning) => ({ ...warning, source })),
  );
}

/** Warnings of what a controller without a Prometheus server refuses, or has no values for. */
function needingPrometheus(
  texts: readonly PolicyText[],
  { policies, findings }: CompiledSet,
  agentGroup: string | undefined,
): readonly Warning[] {
  const without = "without a Prometheus server (prometheus.address)";
  const asking = policies.filter(({ circuit }) => queriesOf(circuit).length > 0);
  if (asking.length === 0) return [];
  const known = new Set(findings.map(findingLine));
  const own = compileSet(texts, {
    digest: sha256,
    queries: "own",
    defaultGroup: groupOf(agentGroup),
  });
  const more = own.findings.filter((finding) => !known.has(findingLine(finding)));
  const refused = more.map(({ source, at, path, wanted, got }): Warning => {
    const text = `${without} a controller refuses this: wanted ${wanted}, got ${got}`;
    return { source, code: "needs_prometheus", at, path, text };
  });
  const unmeasured = asking.flatMap(({ source, needs }) =>
    needs
      .filter(({ kind, name }) => kind === "metric" && !isSeriesName(name))
      .map(({ name, at, path }): Warning => {
        const text = `${without} the query has no values, because Sluice does not measure ${name}`;
        return { source, code: "needs_prometheus", at, path, text };
      }),
  );
  return [...refused, ...unmeasured];
}

/**
 * Returns the configuration for the policy of this name; undefined where its text has faults. `seen` has the policies of
 * the files before it: a policy has one file at most.
 */
function checkDynamicFile(
  name: string,
  text: string,
  { policies, findings }: CompiledSet,
  seen: Set<string>,
  report: Report,
): JsonObject | undefined {
  if (seen.has(name)) {
    report.refuse(START, [], `one file of dynamic configuration for policy ${name}`, "several");
    return undefined;
  }
  seen.add(name);
  const config = readDynamicFile(text, report);
  const policy = policies.find((one) => one.name === name);
  if (policy !== undefined && config !== undefined) {
    checkDynamicConfig(policy, config, [], report);
  }
  // A policy with faults is not in the set, although the file may be for it.
  if (policy === undefined && findings.length === 0) {
    report.warn("dynamic_config", START, [], `there is no policy ${name} among the documents`);
  }
  return config && (plain(config) as JsonObject);
}

/** The same, with the texts by source, and the files of dynamic configuration that were skipped. */
async function readAndCompile(
  command: string,
  names: readonly string[],
  terminal: Terminal,
  { queries = "prometheus", agentGroup, namespace, stdinName = "stdin" }: Setting,
  withDynamic = false,
): Promise<{
  readonly set: CompiledSet;
  readonly texts: readonly PolicyText[];
  /** Files of dynamic configuration, if they were asked for. */
  readonly dynamic: readonly { readonly source: string; readonly text: string }[];
}> {
  if (names.length === 0) {
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one FILE, got none`);
  }
  const inputs = names.filter((name) => name === "-").length;
  if (inputs > 1) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `${command}: wanted - at most once, got it ${inputs} times`,
    );
  }
  const defaultGroup = groupOf(agentGroup);
  // A file may be named twice, by itself and with its directory.
  const all = (await allOf(names.map(filesOf))).flat();
  const files = [
    ...new Map(all.toReversed().map((file) => [resolve(file), file])).values(),
  ].reverse();
  const isDynamic = (file: string) => policyOfDynamicFile(basename(file)) !== undefined;
  const policies = files.filter((file) => !isDynamic(file));
  if (policies.length === 0) {
    const got = "only dynamic configuration, which is checked together with its policy";
    throw new Fault("INVALID_ARGUMENT", `${command}: wanted at least one policy, got ${got}`);
  }
  const configs = withDynamic ? files.filter(isDynamic) : [];
  const read = await allOf([
    ...policies.map((file) => readPolicy(file, names, stdinName, terminal)),
    ...configs.map(readDynamic),
  ]);
  const texts = read.slice(0, policies.length).map((text) => ({ ...text, namespace }));
  const set = compileSet(texts, { digest: sha256, queries, defaultGroup });
  return { set, texts, dynamic: read.slice(policies.length) };
}

/** All results, or a Fault with the messages of all that failed, each in a line of its own. */
async function allOf<T>(reads: readonly Promise<T>[]): Promise<readonly T[]> {
  const settled = await Promise.allSettled(reads);
  const faults = settled.flatMap((each) =>
    each.status === "rejected" ? [Fault.from(each.reason)] : [],
  );
  const other = faults.find(({ code }) => code !== "INVALID_ARGUMENT");
  if (other !== undefined) throw other;
  if (faults.length > 0) {
    throw new Fault("INVALID_ARGUMENT", faults.map(({ message }) => message).join("\n"));
  }
  return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

/** The documents of a directory, or the name itself. Files that cannot be read are reported when they are read. */
async function filesOf(name: string): Promise<readonly string[]> {
  if (!(await isDirectory(name))) return [name];
  const found = (await readdir(name)).filter(isDocument).sort();
  if (found.length > 0) return found.map((file) => join(name, file));
  const ignored = await ignoredFiles(name);
  const wanted = "wanted at least one policy (*.yaml, *.yml, *.json) in the directory";
  const but = ignored.length === 0 ? "" : `; not read: ${ignored.join(", ")}; ${WANTED_NAME}`;
  throw new Fault("INVALID_ARGUMENT", printable(`${name}: ${wanted}, got none${but}`));
}

/** Warnings of the files in named directories that look like policies and that the controller does not read. */
async function ignoredIn(names: readonly string[]): Promise<readonly Warning[]> {
  const warnings: Warning[] = [];
  for (const name of names) {
    if (!(await isDirectory(name))) continue;
    for (const source of await ignoredFiles(name)) {
      const text = `not read as a policy: ${WANTED_NAME}`;
      warnings.push({ source, code: "ignored_file", at: START, path: "", text });
    }
  }
  return warnings;
}

async function isDirectory(name: string): Promise<boolean> {
  const facts = name === "-" ? undefined : await stat(name).catch(() => undefined);
  return facts?.isDirectory() === true;
}

async function readDynamic(source: string): Promise<PolicyText> {
  return { source, defaultName: "", text: await readTextFile(source, MAX_BYTES) };
}

/** A pipe is read only if it was named itself: one in a directory might never have a writer. */
async function readPolicy(
  file: string,
  names: readonly string[],
  stdinName: string,
  terminal: Terminal,
): Promise<PolicyText> {
  const text = await (names.includes(file)
    ? readSource(terminal, file, MAX_BYTES)
    : readTextFile(file, MAX_BYTES));
  // YAML text never contains NUL, and the findings of a YAML parser in a binary file would not help.
  if (text.includes("\0")) {
    const wanted = "wanted a policy as text, got a binary file";
    throw new Fault("INVALID_ARGUMENT", printable(`${file}: ${wanted}`));
  }
  return file === "-"
    ? { source: "stdin", defaultName: stdinName, text }
    : { source: file, defaultName: parse(file).name, text };
}

/** A group as documents may name it. */
function groupOf(name = "default"): string {
  if (name !== "" && !name.includes("/")) return name;
  const got = JSON.stringify(name);
  throw new Fault("INVALID_ARGUMENT", `--agent-group: wanted a name without /, got ${got}`);
}
