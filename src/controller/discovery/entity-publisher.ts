// Publishes the discovered pods and Services in the store, one key for each address. Only changed values are written.

import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Entity } from "#base/net/entity.ts";
import { Slices } from "#runtime/life/slices.ts";
import type { Store } from "#store/store.ts";
import { writeEntity } from "#sync/entities.ts";
import { DISCOVERED, DISCOVERY, ENTITIES, entityKey } from "#sync/keys.ts";
import { followDeletions } from "../loop/deletions.ts";
import { Outbox } from "../loop/outbox.ts";

export interface EntityPublisherOptions {
  readonly store: Pick<Store, "commit" | "list" | "watch">;
  readonly clock: Clock;
  readonly log: Log;
  /** The pod or Service at an address; undefined for none. */
  readonly at: (address: string) => Entity | undefined;
  /** Called with undefined after a successful write, and with the fault of a failed one. */
  readonly written: (fault: Fault | undefined) => void;
}

/**
 * Milliseconds for which changes are collected. Between the events of two objects a pod may be missing for a moment, and a
 * rollout changes the same objects many times.
 */
const GATHER_MS = 50;
/** Milliseconds until a failed read of the store is repeated. */
const RETRY_MS = 5_000;

export class EntityPublisher {
  readonly #options: EntityPublisherOptions;
  readonly #outbox: Outbox;
  readonly #stop = new AbortController();
  readonly #changed = new Set<string>();
  /** The addresses that have a key. */
  readonly #keys = new Set<string>();
  #hasBegun = false;
  #disarm: (() => void) | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #endGuard: () => void = () => undefined;

  constructor(options: EntityPublisherOptions) {
    this.#options = options;
    const { store, clock, log, written } = options;
    let isFailing = false;
    this.#outbox = new Outbox({
      store,
      clock,
      committed() {
        if (isFailing) log.info({}, "the store accepts services again");
        isFailing = false;
        written(undefined);
      },
      failed(fault) {
        const line = `services are not published, will be retried: ${fault.message}`;
        if (!isFailing) log.warn({}, line);
        isFailing = true;
        written(fault);
      },
    });
  }

  /** The number of addresses that have a key, or are about to. */
  get published(): number {
    return this.#keys.size;
  }

  /**
   * Adopts the published entries, publishes all known ones, and deletes the keys of unknown addresses. Resolves when the store
   * has everything, or the publisher is closed.
   */
  async begin(all: () => Iterable<Entity>): Promise<void> {
    const { clock, log } = this.#options;
    if (!(await this.#adopt())) return;
    this.#hasBegun = true;
    for (const { ipAddress } of all()) this.#changed.add(ipAddress);
    await this.#flushNext();
    const orphans = this.#outbox.removeOrphans();
    await this.#outbox.settled();
    if (this.#stop.signal.aborted) return;
    const value = new TextEncoder().encode(new Date(clock.wall()).toISOString());
    this.#outbox.put(new Map([[DISCOVERED, value]]));
    await this.#outbox.settled();
    log.info({ addresses: this.published, orphans }, "services are published");
    if (this.#stop.signal.aborted) return;
    this.#guard();
  }

  /** Restores entries that somebody else deletes. Repeats a watch that ends. */
  #guard(): void {
    const { store, clock, log } = this.#options;
    const failed = (message: string, cause?: unknown) => {
      log.error({ error: cause }, message);
      this.#endGuard = clock.alarm(RETRY_MS, () => this.#guard());
    };
    const followed = { prefixes: [DISCOVERY], what: "services", outbox: this.#outbox };
    this.#endGuard = followDeletions({ ...followed, store, log, failed });
  }

  /** Called when the entity at an address may have changed. */
  change(address: string): void {
    // `begin` publishes all of them.
    if (!this.#hasBegun || this.#stop.signal.aborted) return;
    this.#changed.add(address);
    this.#disarm ??= this.#options.clock.alarm(GATHER_MS, () => {
      this.#disarm = undefined;
      void this.#flushNext();
    });
  }

  /** Ends publishing. The store keeps its entries. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#disarm?.();
    this.#endGuard();
    await this.#outbox.close();
    await this.#flushing;
  }

  /** Resolves with false when the publisher is closed before the store answers. */
  async #adopt(): Promise<boolean> {
    const { store, clock, written } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const { entries } = await store.list(ENTITIES);
        this.#outbox.adopt(entries);
        return !signal.aborted;
      } catch (thrown) {
        written(Fault.from(thrown));
        await pause(RETRY_MS, clock, signal);
      }
    }
    return false;
  }

  /** One after the other, so that values are written in the order in which they were read. */
  #flushNext(): Promise<void> {
    const { written } = this.#options;
    this.#flushing = this.#flushing
      .then(() => this.#flush())
      .catch((thrown: unknown) => written(Fault.from(thrown)));
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const slices = new Slices(this.#options.clock);
    const entries = new Map<string, Uint8Array | undefined>();
    // An address that changes meanwhile is added again.
    for (const address of this.#changed) {
      this.#changed.delete(address);
      const entity = this.#options.at(address);
      if (entity === undefined) this.#keys.delete(address);
      else this.#keys.add(address);
      entries.set(entityKey(address), entity && writeEntity(entity));
      await slices.pause();
    }
    this.#outbox.put(entries);
  }
}
