// Reports keys of a dynamic configuration that no component reads. A controller only warns of them. In a scenario they are
// faults, because it would not test what it claims to test.

import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import type { Report } from "#policy/document/finding.ts";
import { locate, plain, quote } from "#policy/document/tree.ts";
import { dynamicKeysOf, type UnreadKey, unreadKeys } from "#policy/dynamic.ts";
import type { Located } from "../scenario/schema.ts";
import type { Change } from "../scenario.ts";

/** Findings for one change at most. */
const MAX_LISTED = 20;

/** `policies` are those that the change applies to. One of them must read each key. */
export function refuseUnreadKeys(
  { value, path }: Located<Change>,
  policies: readonly CompiledPolicy[],
  report: Report,
): void {
  const { values } = value;
  if (values.kind !== "map") return;
  const keys = dynamicKeysOf(policies.map(({ document }) => document));
  const unread = unreadKeys(keys, plain(values) as JsonObject, MAX_LISTED);
  for (const each of unread) {
    const wanted = wantedOf(each, [...keys.keys()]);
    const where = [...path, "values", ...each.path];
    report.refuse(locate(values, each.path), where, wanted, quote(each.key));
  }
}

function wantedOf({ near }: UnreadKey, known: readonly string[]): string {
  if (near !== undefined) return `a key that a component reads; did you mean ${near}?`;
  const all = known.length === 0 ? "there is none" : known.join(", ");
  return `a key that a component reads: ${all}`;
}
