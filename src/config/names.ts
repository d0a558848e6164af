// Environment names: made from key paths, and read back. A leaf's name sets the leaf; an object's name,
// with its trailing underscore, takes the object as JSON, and leaves win over it.

import { nearest } from "#base/near.ts";
import type { Collected, Origin } from "./collect.ts";
import { readJson, readJsonLeaf } from "./document.ts";
import { type Branch, branches, type Leaf, leaves, PROCESSES, type ProcessName } from "./tree.ts";
import { gotOf, judgeText } from "./value.ts";

/** Name of a leaf; with a trailing underscore that of an object. */
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
  readonly origin: Origin;
}

/** Names that Kubernetes gives every container for the services around it. */
const KUBERNETES =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
/** Facts about the host that pods are given under any prefix. */
const HOST_FACTS = /_(POD_NAME|POD_NAMESPACE|NODE_NAME|POD_IP)$/;

/** Reads the variables of one source. Names outside the process's prefix are not looked at. */
export function readVariables(
  into: Collected,
  process: ProcessName,
  variables: readonly Variable[],
): void {
  const { table, prefix } = PROCESSES[process];
  const objects = new Map<string, Branch>(
    branches(table).map((branch) => [nameOf(process, branch.path, "object"), branch]),
  );
  const keys = new Map<string, Leaf>(
    leaves(table).map((leaf) => [nameOf(process, leaf.path, "leaf"), leaf]),
  );
  const own = variables
    .filter(({ name }) => name.startsWith(prefix))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  // Outer objects before inner ones, leaves last: the closer name wins.
  for (const variable of own.toSorted((one, other) => one.name.length - other.name.length)) {
    const branch = objects.get(variable.name);
    if (branch !== undefined) readJson(into, branch, variable.origin, variable.text);
  }
  const ignored: string[] = [];
  for (const variable of own) {
    const leaf = keys.get(variable.name);
    if (leaf !== undefined) readLeaf(into, leaf, variable);
    else if (objects.has(variable.name) || HOST_FACTS.test(variable.name)) continue;
    else if (isOfKubernetes(variable, keys)) ignored.push(variable.name);
    else unknown(into, variable, [...keys.keys(), ...objects.keys()]);
  }
  if (ignored.length > 0) {
    const message = `names that Kubernetes makes for services are not settings: ${ignored.join(", ")}`;
    into.note("info", "", "", message);
  }
}

/** `…_PORT` is also how keys end: a number beside a name that is nearly a key is a misspelt key. */
function isOfKubernetes({ name, text }: Variable, keys: ReadonlyMap<string, Leaf>): boolean {
  if (!KUBERNETES.test(name)) return false;
  return text.includes("://") || nearest(name, [...keys.keys()]) === undefined;
}

function unknown(into: Collected, { name, origin }: Variable, known: readonly string[]): void {
  const meant = nearest(name, known);
  const wanted =
    meant === undefined ? "a name of the reference page" : `a known name: did you mean ${meant}?`;
  into.fault("", origin.where, wanted, "an unknown name");
}

function readLeaf(into: Collected, { path, row }: Leaf, { text, origin }: Variable): void {
  if (row.kind === "headers" || row.kind === "objects") {
    readJsonLeaf(into, { path, row }, origin, text);
    return;
  }
  if (row.deprecated !== undefined) {
    into.note("warn", path, origin.where, `deprecated: ${row.deprecated}`);
  }
  const judged = judgeText(row, text);
  if ("value" in judged) into.put(path, judged.value, origin);
  else into.fault(path, origin.where, judged.wanted, gotOf(row, text));
}
