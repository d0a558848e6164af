// Follows the store: policies and dynamic configurations of the API, and reports of agents. Callers of the API wait here until
// their writes are in force.

import type { Store } from "#store/store.ts";
import { API_DYNAMIC_CONFIGS, API_POLICIES, REPLICAS } from "#sync/keys.ts";
import type { ReplicaReports } from "./loop/replica-reports.ts";
import type { ActivePolicies } from "./policies/active-policies.ts";
import type { ApiSource } from "./policies/api-source.ts";

export interface StoreFollowerOptions {
  readonly store: Pick<Store, "watch">;
  readonly api: ApiSource;
  readonly reports: ReplicaReports;
  readonly active: ActivePolicies;
  /** Called when the store can no longer be followed. */
  readonly failed: (message: string, cause?: unknown) => void;
}

interface Waiter {
  readonly revision: number;
  readonly done: () => void;
}

export class StoreFollower {
  readonly #options: StoreFollowerOptions;
  readonly #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  #revision = 0;
  readonly #waiters = new Set<Waiter>();

  constructor(options: StoreFollowerOptions) {
    this.#options = options;
  }

  /** Resolves when the present content of the store is in force; rejects if following fails before. */
  start(): Promise<void> {
    const { failed } = this.#options;
    const { signal } = this.#stop;
    const first = Promise.withResolvers<void>();
    const followed = this.#follow(first.resolve);
    this.#ended = followed.then(
      () => {
        first.resolve();
        if (!signal.aborted) failed("the store ended its watch");
      },
      (thrown: unknown) => {
        first.reject(thrown);
        if (!signal.aborted) failed("following the store failed", thrown);
      },
    );
    return first.promise;
  }

  /** Resolves when a commit with this revision is in force, when `stop` is called, or when the signal aborts. */
  async reached(revision: number, givenUp: AbortSignal): Promise<void> {
    if (revision <= this.#revision || this.#stop.signal.aborted || givenUp.aborted) return;
    const { promise, resolve: done } = Promise.withResolvers<void>();
    const waiter = { revision, done };
    this.#waiters.add(waiter);
    const leave = () => done();
    givenUp.addEventListener("abort", leave, { once: true });
    await promise;
    givenUp.removeEventListener("abort", leave);
    this.#waiters.delete(waiter);
  }

  /** Callers that wait for a revision. */
  get waiting(): number {
    return this.#waiters.size;
  }

  stop(): void {
    this.#stop.abort();
    this.#release(Number.POSITIVE_INFINITY);
  }

  /** Resolves when no batch is being applied any more. Call `stop` first. */
  ended(): Promise<void> {
    return this.#ended;
  }

  async #follow(first: () => void): Promise<void> {
    const { store, api, reports, active } = this.#options;
    const prefixes = [API_POLICIES, API_DYNAMIC_CONFIGS, REPLICAS];
    for await (const batch of store.watch(prefixes, this.#stop.signal)) {
      const apply = await api.read(batch);
      apply();
      reports.apply(batch);
      await active.update();
      this.#revision = batch.revision;
      this.#release(batch.revision);
      first();
    }
  }

  #release(revision: number): void {
    for (const waiter of this.#waiters) if (waiter.revision <= revision) waiter.done();
  }
}
