// Attachment by reference, as policies of the Gateway API have it (GEP-713): `targetRefs` of a resource's spec names the
// gateways and routes whose requests the policy is about. Each of them is a control point, and selectors that name no control
// point get those of the targets. So the policy itself is one that any other source could have, too.

import type { Report } from "./finding.ts";
import { describe, member, type Path, type Tree, type TreeEntry } from "./tree.ts";

export const TARGET_GROUP = "gateway.networking.k8s.io";
export const TARGET_KINDS = ["Gateway", "HTTPRoute"] as const;

/** A gateway or a route, or a part of one, in the namespace of the policy. */
export interface Target {
  readonly kind: (typeof TARGET_KINDS)[number];
  readonly namespace: string;
  readonly name: string;
  /** A listener of a Gateway, or a rule of an HTTPRoute. */
  readonly section: string | undefined;
  /** `gateway/NAMESPACE/NAME` or `httproute/NAMESPACE/NAME`, with `/SECTION` where there is one. */
  readonly controlPoint: string;
}

/** The most targets of a policy: as many as a policy of the Gateway API may have ancestors. */
export const MAX_TARGETS = 16;
/** Names of objects: DNS subdomains, which begin and end with a letter or a digit. */
export const OBJECT_NAME = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$";

const KEYS: readonly string[] = ["group", "kind", "name", "sectionName"];

/** True if a control point is that of a gateway or a route of this namespace. */
export function isControlPointOf(controlPoint: string, namespace: string): boolean {
  return TARGET_KINDS.some((kind) =>
    controlPoint.startsWith(`${kind.toLowerCase()}/${namespace}/`),
  );
}

/** The spec without its `targetRefs`, and what they name. What is wrong with them goes to the report. */
export function attach(
  spec: Tree,
  namespace: string,
  path: Path,
  report: Report,
): { readonly spec: Tree; readonly targets: readonly Target[] } {
  const refs = member(spec, "targetRefs");
  if (spec.kind !== "map" || !spec.entries.some(({ key }) => key === "targetRefs"))
    return { spec, targets: [] };
  const entries = spec.entries.filter(({ key }) => key !== "targetRefs");
  const before = report.faults;
  const targets = refs === undefined ? [] : targetsIn(refs, namespace, report, path);
  const points = targets.map(({ controlPoint }) => controlPoint);
  // The selectors are not to blame for references that are wrong.
  if (points.length === 0 && report.faults > before) points.push("unknown");
  const rest: Tree = { ...spec, entries };
  return { spec: points.length === 0 ? rest : filled(rest, points), targets };
}

function targetsIn(refs: Tree, namespace: string, report: Report, spec: Path): readonly Target[] {
  const path = [...spec, "targetRefs"];
  if (refs.kind !== "list") {
    report.refuse(refs.at, path, "a list of references", describe(refs));
    return [];
  }
  const { length } = refs.items;
  if (length === 0 || length > MAX_TARGETS) {
    const got = length === 0 ? "an empty list" : `${length}`;
    report.refuse(refs.at, path, `from 1 to ${MAX_TARGETS} references`, got);
    return [];
  }
  const targets = new Map<string, Target>();
  for (const [index, ref] of refs.items.entries()) {
    const target = targetOf(ref, namespace, [...path, index], report);
    if (target === undefined) continue;
    const { controlPoint } = target;
    if (targets.has(controlPoint))
      report.refuse(ref.at, [...path, index], "each target once", `${controlPoint} again`);
    targets.set(controlPoint, target);
  }
  return [...targets.values()];
}

function targetOf(ref: Tree, namespace: string, path: Path, report: Report): Target | undefined {
  if (ref.kind !== "map") {
    report.refuse(ref.at, path, "a reference with group, kind and name", describe(ref));
    return undefined;
  }
  const before = report.faults;
  for (const { key, keyAt } of ref.entries) {
    if (KEYS.includes(key)) continue;
    const wanted =
      key === "namespace"
        ? "no namespace: a policy attaches to what is in its own namespace"
        : `one of ${KEYS.join(", ")}`;
    report.refuse(keyAt, [...path, key], wanted, key === "namespace" ? "one" : "an unknown key");
  }
  const text = (key: string, wanted: string, fits: (value: string) => boolean): string => {
    const found = member(ref, key);
    if (found?.kind === "text" && fits(found.value)) return found.value;
    const got = found === undefined ? "nothing" : describe(found);
    report.refuse(found?.at ?? ref.at, [...path, key], wanted, got);
    return "";
  };
  const isName = (value: string) => new RegExp(OBJECT_NAME).test(value);
  text("group", TARGET_GROUP, (value) => value === TARGET_GROUP);
  const kinds: readonly string[] = TARGET_KINDS;
  const kind = text("kind", kinds.join(" or "), (value) => kinds.includes(value));
  const name = text("name", "the name of an object", isName);
  const section =
    member(ref, "sectionName") === undefined
      ? undefined
      : text("sectionName", "the name of a listener or a rule", isName);
  if (report.faults > before) return undefined;
  const parts = [kind.toLowerCase(), namespace, name, ...(section === undefined ? [] : [section])];
  return {
    kind: kind as Target["kind"],
    namespace,
    name,
    section,
    controlPoint: parts.join("/"),
  };
}

/** Repeats each selector that names no control point once for each of these. */
function filled(tree: Tree, points: readonly string[]): Tree {
  if (tree.kind === "list")
    return { ...tree, items: tree.items.map((item) => filled(item, points)) };
  if (tree.kind !== "map") return tree;
  return {
    ...tree,
    entries: tree.entries.map((entry): TreeEntry => {
      const { key, value } = entry;
      // The configuration of a collector is its own.
      if (key === "infra_meters") return entry;
      if (key !== "selectors" || value.kind !== "list")
        return { ...entry, value: filled(value, points) };
      const all = value.items.flatMap((item, index) =>
        selectorsOf(item, points).map((selector) => ({ selector, index })),
      );
      const items = all.map(({ selector }) => selector);
      return { ...entry, value: { ...value, items, written: all.map(({ index }) => index) } };
    }),
  };
}

function selectorsOf(selector: Tree, points: readonly string[]): readonly Tree[] {
  if (selector.kind !== "map" || member(selector, "control_point") !== undefined) return [selector];
  const { at } = selector;
  const own = selector.entries.filter(({ key }) => key !== "control_point");
  return points.map((value): Tree => {
    const point: TreeEntry = {
      key: "control_point",
      keyAt: at,
      value: { kind: "text", at, value },
    };
    return { ...selector, entries: [point, ...own] };
  });
}
