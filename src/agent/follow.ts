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

/** What does not work as it is written, by key: it stands until the key is written again or goes. */
export interface Trouble {
  readonly refused: ReadonlyMap<string, Fault>;
  /** Rules that are in force without a part that agents of this version do not run. */
  readonly notRun: ReadonlyMap<string, string>;
  /** The keys at which the trouble came with this batch. */
  readonly fresh: ReadonlySet<string>;
}

export interface FollowOptions {
  readonly store: Store;
  readonly group: string;
  readonly book: Rulebook;
  /** Called after each batch, in the turn in which it came into force. */
  readonly applied: (revision: number, trouble: Trouble) => void;
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
  const refused = new Map<string, Fault>();
  const notRun = new Map<string, string>();
  for await (const batch of store.watch(agentPrefixes(group), signal)) {
    for (const key of [...batch.deletes, ...batch.puts.map((entry) => entry.key)].map(nameOf)) {
      refused.delete(key);
      notRun.delete(key);
    }
    const changes = readBatch(group, batch);
    const { rules, numbers } = changes;
    const fresh = new Set<string>();
    const note = <T>(into: Map<string, T>, key: string, what: T): void => {
      into.set(key, what);
      fresh.add(key);
    };
    for (const [key, fault] of changes.faults) note(refused, nameOf(key), fault);
    for (const [key, part] of changes.notRun) note(notRun, nameOf(key), part);
    for (const { key, fault } of book.apply({ rules, numbers })) note(refused, key, fault);
    applied(batch.revision, { refused, notRun, fresh });
    ready();
  }
}

/** As the rulebook names rules. Numbers that cannot be read say nothing about the rule that they are for. */
function nameOf(key: string): string {
  return key.replace(/^\/config\//, "");
}
