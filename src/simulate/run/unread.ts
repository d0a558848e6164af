// Keys of dynamic configuration that no component reads. A controller sets them aside and says so; in a
// scenario they would try nothing, so here they are faults.

import { nearest } from "#base/near.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { dynamicKeys } from "#policy/dynamic.ts";
import { type Finding, finding } from "#policy/finding.ts";
import { type Path, quote, type Tree } from "#policy/tree.ts";
import type { Placed } from "../scenario/shape.ts";
import type { Change } from "../scenario.ts";

/** More than anybody mends in one go. */
const MOST = 20;

/** `policies` are those that the change is for: each key must be read by one of them. */
export function unreadKeys(
  { value, path }: Placed<Change>,
  policies: readonly CompiledPolicy[],
): readonly Finding[] {
  const known = new Set(policies.flatMap(({ document }) => [...dynamicKeys(document).keys()]));
  // A key with dots also names a member inside members.
  const within = new Set([...known].flatMap(outerParts));
  const findings: Finding[] = [];
  const visit = (tree: Tree, outer: string, at: Path): void => {
    if (tree.kind !== "map") return;
    for (const { key, keyAt, value: inner } of tree.entries) {
      const name = outer === "" ? key : `${outer}.${key}`;
      const where = [...at, key];
      if (known.has(name) || findings.length >= MOST) continue;
      if (within.has(name) && inner.kind === "map") {
        visit(inner, name, where);
        continue;
      }
      findings.push(finding(keyAt, where, wantedOf(name, [...known]), quote(name)));
    }
  };
  visit(value.values, "", [...path, "values"]);
  return findings;
}

function wantedOf(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  if (near !== undefined) return `a key that a component reads; did you mean ${near}?`;
  const all = known.length === 0 ? "there is none" : known.join(", ");
  return `a key that a component reads: ${all}`;
}

/** `a.b.c`: `a` and `a.b`. */
function outerParts(key: string): readonly string[] {
  const parts = key.split(".");
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join("."));
}
