// Keeps the rulebook equal to the store: every batch is taken in whole, in one turn, so that no check sees
// half of it. What cannot be read or compiled is reported and changes nothing.

import type { Fault } from "#base/fault.ts";
import type { Rulebook } from "#flow/rulebook.ts";
import { agentPrefixes, readBatch } from "#store/rules.ts";
import type { Store } from "#store/store.ts";

export interface Followed {
  /** Resolves when the first batch is in force: before it, nothing is known and nothing may be judged. */
  readonly ready: Promise<void>;
  /** Resolves when the watch has ended. */
  readonly ended: Promise<void>;
}

export interface FollowOptions {
  readonly store: Store;
  readonly group: string;
  readonly book: Rulebook;
  /** Called after each batch, in the turn in which it came into force. */
  readonly applied: (revision: number, refused: ReadonlyMap<string, Fault>) => void;
  readonly signal: AbortSignal;
}

export function follow(options: FollowOptions): Followed {
  const first = Promise.withResolvers<void>();
  const ended = followAll(options, first.resolve);
  // A watch that ends before its first batch must not leave anybody waiting.
  ended.then(
    () => first.resolve(),
    (thrown: unknown) => first.reject(thrown),
  );
  return { ready: first.promise, ended };
}

async function followAll(options: FollowOptions, ready: () => void): Promise<void> {
  const { store, group, book, applied, signal } = options;
  for await (const batch of store.watch(agentPrefixes(group), signal)) {
    const { rules, numbers, faults } = readBatch(group, batch);
    const refused = new Map(faults);
    for (const { key, fault } of book.apply({ rules, numbers })) refused.set(key, fault);
    applied(batch.revision, refused);
    ready();
  }
}
