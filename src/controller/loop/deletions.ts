// Follows the entries that the leader has published, and restores those that somebody else deletes. Running agents keep such
// rules and numbers, but an agent that starts meanwhile would miss them.

import type { Log } from "#base/log.ts";
import type { Store } from "#store/store.ts";
import type { Outbox } from "./outbox.ts";

interface DeletionsOptions {
  readonly store: Pick<Store, "watch">;
  /** Prefixes of the keys that the outbox writes. */
  readonly prefixes: readonly string[];
  /** Name of the entries in the log. */
  readonly what: string;
  readonly outbox: Pick<Outbox, "putBack">;
  readonly log: Log;
  /** Called when the store can no longer be followed. */
  readonly failed: (message: string, cause?: unknown) => void;
}

/** Follows the store until the returned function is called. */
export function followDeletions(options: DeletionsOptions): () => void {
  const { store, prefixes, what, outbox, log, failed } = options;
  const stop = new AbortController();
  const follow = async () => {
    for await (const { deletes } of store.watch(prefixes, stop.signal)) {
      const keys = deletes.length === 0 ? 0 : outbox.putBack(deletes);
      if (keys === 0) continue;
      const message = `somebody deleted ${what} from the store; they are written again`;
      log.warn({ keys, first: deletes[0] }, message);
    }
  };
  follow().catch((thrown: unknown) => {
    if (!stop.signal.aborted) failed("following the published entries failed", thrown);
  });
  return () => stop.abort();
}
