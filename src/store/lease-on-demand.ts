// Commits under one lease, which is asked for with the first commit.

import type { CommitOptions, Lease, LeaseOptions, Op, Store } from "./store.ts";

export class LeaseOnDemand {
  readonly #store: Pick<Store, "lease" | "commit">;
  readonly #options: LeaseOptions;
  #lease: Promise<Lease> | undefined;

  constructor(store: Pick<Store, "lease" | "commit">, options: LeaseOptions = {}) {
    this.#store = store;
    this.#options = options;
  }

  async commit(ops: readonly Op[], options: Pick<CommitOptions, "guards"> = {}): Promise<void> {
    this.#lease ??= this.#store.lease(this.#options);
    try {
      await this.#store.commit(ops, { ...options, lease: await this.#lease });
    } catch (thrown) {
      // A lease that was not granted is asked for again.
      await this.#lease?.catch(() => {
        this.#lease = undefined;
      });
      throw thrown;
    }
  }

  /** The key stays as it is, and is not written again when the lease was lost. */
  async release(key: string): Promise<void> {
    (await this.#lease?.catch(() => undefined))?.release(key);
  }

  /** Deletes the keys. Where the store refuses, they end with the lease. */
  async revoke(): Promise<void> {
    const lease = await this.#lease?.catch(() => undefined);
    await lease?.revoke().catch(() => undefined);
  }
}
