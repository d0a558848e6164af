// Keeps the store equal to the pods and Services that were discovered: one key for each address. Only keys whose values
// differ are written.

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
  /** The pod or Service at an address; undefined where none is known. */
  readonly at: (address: string) => Entity | undefined;
  /** Called when the store has taken something, or with the reason for which it has not. */
  readonly written: (fault: Fault | undefined) => void;
}

/**
 * Milliseconds for which changes are gathered. A pod that moves from one object to another is gone for a moment between
 * the events of both, and a rollout changes the same objects many times.
 */
const GATHER_MS = 50;
/** Milliseconds until a store that could not be read is asked again. */
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
   * Adopts what is in the store, publishes all that is known then, and deletes the keys of addresses where nothing stands.
   * Resolves when the store has everything, or the publisher is closed.
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

  /** Writes again what somebody else deletes. A watch that ends is begun again. */
  #guard(): void {
    const { store, clock, log } = this.#options;
    const failed = (message: string, cause?: unknown) => {
      log.error({ error: cause }, message);
      this.#endGuard = clock.alarm(RETRY_MS, () => this.#guard());
    };
    const followed = { prefixes: [DISCOVERY], what: "services", outbox: this.#outbox };
    this.#endGuard = followDeletions({ ...followed, store, log, failed });
  }

  /** Something else may stand at this address. */
  change(address: string): void {
    // The beginning takes them all.
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

  /** One after the other, so that a value that was read earlier is put earlier. */
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
    // An address that changes meanwhile is visited again.
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
