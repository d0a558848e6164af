// Extracts policies from what is around them: nothing (a bare policy), a Kubernetes object, or a list of such
// objects. Each policy comes with its name and its place in the document.

import type { Report } from "./finding.ts";
import { nameFault } from "./name.ts";
import { attach, type Target } from "./targets.ts";
import { describe, kindOf, member, type Path, type Position, quote, type Tree } from "./tree.ts";

/** One policy as it was read, not validated yet. */
export interface PolicyDocument {
  readonly name: string;
  readonly at: Position;
  /** The policy itself, without the object around it. */
  readonly tree: Tree;
  /** Path of `tree` in its document. */
  readonly path: Path;
  /** The whole document, to look up positions. */
  readonly root: Tree;
  /** Dynamic configuration by key, from the object around the policy. */
  readonly dynamicConfig: Tree | undefined;
  /** The gateways and routes that the object around the policy attaches it to. */
  readonly targets?: readonly Target[];
}

type MapTree = Tree & { readonly kind: "map" };

export const API_VERSION = "fluxninja.com/v1alpha1";
const POLICY_KEYS: readonly string[] = [
  "apiVersion",
  "kind",
  "metadata",
  "spec",
  "dynamicConfig",
  "status",
];
/** A document with one of these is an object of Kubernetes, even if it leaves out what says so. */
const OBJECT_KEYS: readonly string[] = ["apiVersion", "kind", "metadata", "spec"];
const LIST_KEYS: readonly string[] = ["apiVersion", "kind", "metadata", "items"];

interface Expected {
  /** The name of a policy that has none, unless it is one of a list. */
  readonly defaultName: string;
  /** The namespace of objects; undefined for any. */
  readonly namespace: string | undefined;
}

export function unwrap(
  root: Tree,
  { defaultName, namespace }: Expected,
  into: PolicyDocument[],
  report: Report,
): void {
  const take = (tree: Tree, path: Path): void => {
    if (tree.kind !== "map") {
      if (path.length > 0) report.refuse(tree.at, path, "an object", describe(tree));
      else report.refuse(tree.at, path, "an object at the top level", kindOf(tree));
      return;
    }
    if (!tree.entries.some(({ key }) => OBJECT_KEYS.includes(key))) {
      if (path.length > 0) {
        report.refuse(tree.at, path, "an object of kind Policy", "no apiVersion and kind");
      } else if (checkName(defaultName, tree.at, [], report)) {
        into.push({ name: defaultName, at: tree.at, tree, path, root, dynamicConfig: undefined });
      }
      return;
    }
    const kind = member(tree, "kind");
    const isList = path.length === 0 && kind?.kind === "text" && kind.value === "PolicyList";
    checkHead(tree, path, isList ? "PolicyList" : "Policy", report);
    if (isList) {
      const items = member(tree, "items");
      if (items?.kind === "list")
        for (const [at, item] of items.items.entries()) take(item, ["items", at]);
      else {
        const got = items ? describe(items) : "nothing";
        report.refuse(items?.at ?? tree.at, ["items"], "a list", got);
      }
      return;
    }
    const expected = { defaultName: path.length === 0 ? defaultName : undefined, namespace };
    const found = unwrapObject(tree, path, expected, report);
    if (found !== undefined) into.push({ ...found, root });
  };
  take(root, []);
}

function unwrapObject(
  tree: MapTree,
  path: Path,
  {
    defaultName,
    namespace: wanted,
  }: Omit<Expected, "defaultName"> & {
    readonly defaultName: string | undefined;
  },
  report: Report,
): Omit<PolicyDocument, "root"> | undefined {
  const metadata = member(tree, "metadata");
  if (metadata !== undefined && metadata.kind !== "map") {
    report.refuse(metadata.at, [...path, "metadata"], "an object", describe(metadata));
    return undefined;
  }
  const named = member(metadata, "name");
  const namePath = [...path, "metadata", "name"];
  const at = named?.at ?? metadata?.at ?? tree.at;
  const name = named === undefined ? defaultName : textIn(named);
  if (name === undefined) {
    const got = named ? describe(named) : "nothing";
    report.refuse(at, namePath, "the policy's name as text", got);
    return undefined;
  }
  const usable = checkName(name, at, namePath, report);
  const spec = member(tree, "spec");
  if (spec === undefined) report.refuse(tree.at, [...path, "spec"], "a policy", "nothing");
  const dynamicConfig = member(tree, "dynamicConfig");
  if (dynamicConfig !== undefined && dynamicConfig.kind !== "map") {
    const where = [...path, "dynamicConfig"];
    report.refuse(dynamicConfig.at, where, "an object", describe(dynamicConfig));
  }
  if (!usable || spec === undefined) return undefined;
  const place = [...path, "spec"];
  // Without one, the person who applies the object chooses it.
  const namespace = member(metadata, "namespace");
  const found = namespace && textIn(namespace);
  const isRight = wanted === undefined ? NAMESPACE.test(found ?? "") : found === wanted;
  if (namespace !== undefined && namespace.kind !== "null" && !isRight) {
    const which = wanted ?? "the name of a namespace";
    report.refuse(namespace.at, [...path, "metadata", "namespace"], which, describe(namespace));
  }
  const { spec: own, targets } = attach(spec, found ?? wanted ?? "default", place, report);
  return { name, at: tree.at, tree: own, path: place, dynamicConfig, targets };
}

const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

function textIn(tree: Tree): string | undefined {
  return tree.kind === "text" ? tree.value : undefined;
}

function checkHead(tree: MapTree, path: Path, kind: "Policy" | "PolicyList", report: Report): void {
  const wanted = { apiVersion: API_VERSION, kind };
  for (const [key, value] of Object.entries(wanted)) {
    const found = member(tree, key);
    if (found?.kind === "text" && found.value === value) continue;
    const got = found ? describe(found) : "nothing";
    report.refuse(found?.at ?? tree.at, [...path, key], value, got);
  }
  const known = kind === "Policy" ? POLICY_KEYS : LIST_KEYS;
  for (const { key, keyAt } of tree.entries) {
    if (known.includes(key)) continue;
    const got = "an unknown key";
    report.refuse(keyAt, [...path, key], `one of ${known.join(", ")}`, got);
  }
}

function checkName(name: string, at: Position, path: Path, report: Report): boolean {
  const wanted = nameFault(name);
  if (wanted !== undefined) report.refuse(at, path, wanted, quote(name));
  return wanted === undefined;
}
