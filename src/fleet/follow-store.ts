// Follows keys of the store until a signal aborts. After a refusal it asks again, because rights may be granted later.

import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Store, StoreUpdate } from "#store/store.ts";

export interface FollowStoreOptions {
  readonly store: Pick<Store, "watch">;
  readonly prefixes: readonly string[];
  /** Name of the keys in the log. */
  readonly what: string;
  /** Applies a batch. An error that it throws is logged, and the next batch is applied. */
  readonly apply: (batch: StoreUpdate) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Milliseconds until the store is asked again. */
const RETRY_MS = 5_000;

/** Resolves when the signal aborts or the store closes. */
export async function followStore(options: FollowStoreOptions): Promise<void> {
  const { store, prefixes, what, clock, log, signal } = options;
  while (!signal.aborted) {
    try {
      for await (const batch of store.watch(prefixes, signal)) applyOrLog(batch, options);
      return;
    } catch (thrown) {
      log.warn({}, `${what} cannot be read from the store: ${Fault.from(thrown).message}`);
      await pause(RETRY_MS, clock, signal);
    }
  }
}

/** The store is not to blame, so it is not asked again. */
function applyOrLog(batch: StoreUpdate, { apply, what, log }: FollowStoreOptions): void {
  try {
    apply(batch);
  } catch (thrown) {
    log.error({ error: thrown }, `a change of ${what} could not be applied`);
  }
}
