// What a dynamic configuration says to nobody: most often a key that is misspelt.

import { nearest } from "#base/near.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { dynamicKeys } from "#policy/dynamic.ts";

type Policy = CompiledPolicy["document"];

/** So many keys are told, and looked for among so many: what is posted is not bounded otherwise. */
const MOST_TOLD = 5;
const MOST_COMPARED = 200;
const LONGEST_TOLD = 60;

/** Members of a dynamic configuration that no component reads, as lines. */
export function unreadKeys(document: Policy, config: JsonObject): readonly string[] {
  const keys = [...dynamicKeys(document).keys()];
  const read = new Set(keys.flatMap((key) => [key, key.split(".")[0] ?? ""]));
  const known = keys.filter(({ length }) => length <= LONGEST_TOLD).slice(0, MOST_COMPARED);
  const strange = Object.keys(config).filter((key) => !read.has(key));
  return strange.slice(0, MOST_TOLD).map((key) => {
    const near = key.length > LONGEST_TOLD ? undefined : nearest(key, known);
    const hint = near === undefined ? "" : `; did you mean ${near}?`;
    const shown = JSON.stringify(key.slice(0, LONGEST_TOLD));
    return `dynamic configuration: no component reads ${shown}${hint}`;
  });
}
