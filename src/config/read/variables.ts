// Environment variables: their names, which are derived from key paths, and reading them. The name of a key sets the key;
// the name of an object, which ends in an underscore, takes the object as JSON. Keys take precedence over objects.

import { nearest } from "#base/text/spelling.ts";
import { gotOf, validateText } from "../table/value.ts";
import {
  type Branch,
  branches,
  type ConfigLeaf,
  leaves,
  PROCESSES,
  type ProcessName,
} from "../tree.ts";
import type { Collected, ValueOrigin } from "./collected.ts";
import { readJsonLeaf, readJsonObject } from "./document.ts";

/** The name of a key, or that of an object, which has a trailing underscore. */
export function nameOf(process: ProcessName, path: string, kind: "leaf" | "object"): string {
  const { prefix } = PROCESSES[process];
  if (path === "") return prefix;
  const name = `${prefix}${path.toUpperCase().replaceAll(/[.-]/g, "_")}`;
  return kind === "leaf" ? name : `${name}_`;
}

/** One variable and where it was found. */
export interface Variable {
  readonly name: string;
  readonly text: string;
  readonly origin: ValueOrigin;
}

/** Names that Kubernetes sets in every container, for the services of the namespace. */
const KUBERNETES =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
/** Facts about the host that deployments set, with any prefix. */
const HOST_FACTS = /_(POD_NAME|POD_NAMESPACE|NODE_NAME|POD_IP)$/;

/** Reads the variables of one source. Names without the prefix of the process are ignored. */
export function readVariables(
  into: Collected,
  process: ProcessName,
  variables: readonly Variable[],
): void {
  const { table, prefix } = PROCESSES[process];
  const objects = new Map<string, Branch>(
    branches(table).map((branch) => [nameOf(process, branch.path, "object"), branch]),
  );
  const keys = new Map<string, ConfigLeaf>(
    leaves(table).map((leaf) => [nameOf(process, leaf.path, "leaf"), leaf]),
  );
  const own = variables
    .filter(({ name }) => name.startsWith(prefix))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  // Outer objects come before inner ones, and keys last: the more specific name wins.
  for (const variable of own.toSorted((one, other) => one.name.length - other.name.length)) {
    const branch = objects.get(variable.name);
    if (branch !== undefined) readJsonObject(into, branch, variable.origin, variable.text);
  }
  const ignored: string[] = [];
  for (const variable of own) {
    const leaf = keys.get(variable.name);
    if (leaf !== undefined) readLeaf(into, leaf, variable);
    else if (objects.has(variable.name) || HOST_FACTS.test(variable.name)) continue;
    else if (isSetByKubernetes(variable, keys)) ignored.push(variable.name);
    else unknown(into, variable, prefix, [...keys.keys(), ...objects.keys()]);
  }
  for (const { name, origin } of variables) {
    const upper = name.toUpperCase();
    if (name.startsWith(prefix) || !upper.startsWith(prefix)) continue;
    into.note("warn", "", origin.where, `${name} is ignored: did you mean ${upper}?`);
  }
  if (ignored.length > 0) {
    const message = `ignored: names that Kubernetes sets for services: ${ignored.join(", ")}`;
    into.note("info", "", "", message);
  }
}

/** Some keys end in `…_PORT` too: a number under a name that is nearly a key is taken for a misspelt key. */
function isSetByKubernetes(
  { name, text }: Variable,
  keys: ReadonlyMap<string, ConfigLeaf>,
): boolean {
  if (!KUBERNETES.test(name)) return false;
  return text.includes("://") || nearest(name, [...keys.keys()]) === undefined;
}

/** The prefix is left out of the comparison: it would make every short name look alike. */
function unknown(
  into: Collected,
  { name, origin }: Variable,
  prefix: string,
  known: readonly string[],
): void {
  const meant = nearest(
    name.slice(prefix.length),
    known.map((full) => full.slice(prefix.length)).filter((rest) => rest !== ""),
  );
  const wanted =
    meant === undefined
      ? "a name from the reference page"
      : `a known name: did you mean ${prefix}${meant}${meant.endsWith("_") ? ", which takes an object as JSON" : ""}?`;
  into.fault("", origin.where, wanted, "an unknown name");
}

function readLeaf(into: Collected, { path, row }: ConfigLeaf, { text, origin }: Variable): void {
  if (row.kind === "headers" || row.kind === "objects") {
    readJsonLeaf(into, { path, row }, origin, text);
    return;
  }
  if (row.deprecated !== undefined) {
    into.note("warn", path, origin.where, `deprecated: ${row.deprecated}`);
  }
  const validated = validateText(row, text);
  if ("value" in validated) into.set(path, validated.value, origin);
  else into.fault(path, origin.where, validated.wanted, gotOf(row, text));
}
