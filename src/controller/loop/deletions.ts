// Follows the entries that the leader has published, and restores those that somebody else deletes. Running agents keep such
// rules and numbers, but an agent that starts meanwhile would miss them.

import type { Log } from "#base/log.ts";
import type { Entry, Store } from "#store/store.ts";
import type { Outbox } from "./outbox.ts";

interface DeletionsOptions {
  readonly store: Pick<Store, "watch">;
  /** Prefixes of the keys that the outbox writes. */
  readonly prefixes: readonly string[];
  /** Name of the entries in the log. */
  readonly what: string;
  readonly outbox: Pick<Outbox, "putBack" | "storedKeys">;
  readonly log: Log;
  /** Called when the store can no longer be followed. */
  readonly failed: (message: string, cause?: unknown) => void;
}

/**
 * Follows the store until the returned function is called. The first update of a watch has all entries: what is missing
 * there was deleted while nobody watched.
 */
export function followDeletions(options: DeletionsOptions): () => void {
  const { store, prefixes, what, outbox, log, failed } = options;
  const stop = new AbortController();
  const follow = async () => {
    let expected: readonly string[] | undefined = outbox.storedKeys(prefixes);
    for await (const { puts, deletes } of store.watch(prefixes, stop.signal)) {
      const deleted = expected === undefined ? deletes : missingFrom(puts, expected);
      expected = undefined;
      const keys = deleted.length === 0 ? 0 : outbox.putBack(deleted);
      if (keys === 0) continue;
      const message = `somebody deleted ${what} from the store; they are written again`;
      log.warn({ keys, first: deleted[0] }, message);
    }
  };
  follow().catch((thrown: unknown) => {
    if (!stop.signal.aborted) failed("following the published entries failed", thrown);
  });
  return () => stop.abort();
}

function missingFrom(entries: readonly Entry[], expected: readonly string[]): readonly string[] {
  const present = new Set(entries.map(({ key }) => key));
  return expected.filter((key) => !present.has(key));
}
