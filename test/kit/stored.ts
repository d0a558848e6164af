// What lies in a store, for tests of those who read it.

import type { Rule } from "#flow/rules.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { configEntries, readBatch } from "#store/rules.ts";
import type { Batch } from "#store/store.ts";

export function batchOf(
  entries: Iterable<readonly [key: string, value: Uint8Array | undefined]>,
  deletes: readonly string[] = [],
): Batch {
  const puts = [...entries].flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value, revision: 1 }],
  );
  return { revision: 1, puts, deletes };
}

/** What agents of a group make of a policy. */
export function rulesOf(policy: CompiledPolicy, group = "default"): readonly Rule[] {
  const { rules } = readBatch(group, batchOf(configEntries(policy)));
  return [...rules.values()].flatMap((rule) => rule ?? []);
}
