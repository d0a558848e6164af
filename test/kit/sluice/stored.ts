// Stores whose methods a test changes, and store batches for tests of code that follows a store.

import type { Rule } from "#flow/rules.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import type { Store, StoreUpdate } from "#store/store.ts";
import { readBatch } from "#sync/follow/batch.ts";
import { configEntries } from "#sync/publish/policy.ts";

export function batchOf(
  entries: Iterable<readonly [key: string, value: Uint8Array | undefined]>,
  deletes: readonly string[] = [],
): StoreUpdate {
  const written = { revision: 1, created: 1, leased: false };
  const puts = [...entries].flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value, ...written }],
  );
  return { revision: 1, puts, deletes };
}

/** The rules that agents of a group read from a compiled policy. */
export function rulesOf(policy: CompiledPolicy, group = "default"): readonly Rule[] {
  const { rules } = readBatch(group, batchOf(configEntries(policy)));
  return [...rules.values()].flatMap((rule) => rule ?? []);
}

/** A store that works like `store`, except for the methods that are given. */
export function storeWith(store: Store, changed: Partial<Store>): Store {
  return {
    list: (prefix, options) => store.list(prefix, options),
    commit: (ops, options) => store.commit(ops, options),
    lease: (options) => store.lease(options),
    watch: (prefixes, signal) => store.watch(prefixes, signal),
    lead: (name, signal, candidate) => store.lead(name, signal, candidate),
    close: () => store.close(),
    ...changed,
  };
}

/** The connection of one process to a store: closing it ends its watches and leaves the store open for others. */
export function connectionTo(store: Store): Store {
  const closed = new AbortController();
  return storeWith(store, {
    watch: (prefixes, signal) => store.watch(prefixes, AbortSignal.any([signal, closed.signal])),
    close: async () => closed.abort(),
  });
}
