// Store batches for tests of code that follows a store.

import type { Rule } from "#flow/rules.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import type { Batch } from "#store/store.ts";
import { readBatch } from "#sync/follow/batch.ts";
import { configEntries } from "#sync/publish/policy.ts";

export function batchOf(
  entries: Iterable<readonly [key: string, value: Uint8Array | undefined]>,
  deletes: readonly string[] = [],
): Batch {
  const puts = [...entries].flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value, revision: 1 }],
  );
  return { revision: 1, puts, deletes };
}

/** The rules that agents of a group read from a compiled policy. */
export function rulesOf(policy: CompiledPolicy, group = "default"): readonly Rule[] {
  const { rules } = readBatch(group, batchOf(configEntries(policy)));
  return [...rules.values()].flatMap((rule) => rule ?? []);
}
