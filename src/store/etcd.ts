// A store in etcd, which processes on many machines share.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { EtcdClient, type EtcdClientOptions } from "./etcd/client.ts";
import { leaseIsGone } from "./etcd/faults.ts";
import { Keys } from "./etcd/keys.ts";
import { lead } from "./etcd/lease/election.ts";
import { KeptLease } from "./etcd/lease/kept-lease.ts";
import type { EtcdLease } from "./etcd/lease/lease.ts";
import { list } from "./etcd/list.ts";
import type { EtcdSettings } from "./etcd/settings.ts";
import { commit } from "./etcd/transaction.ts";
import { EtcdWatch, type WatchCounts } from "./etcd/watch/watch.ts";
import type {
  CommitOptions,
  Entry,
  Leadership,
  Lease,
  LeaseOptions,
  Op,
  Store,
  StoreUpdate,
} from "./store.ts";

export type { EtcdSettings } from "./etcd/settings.ts";
export type { WatchCounts } from "./etcd/watch/watch.ts";

export interface EtcdStoreOptions {
  readonly settings: EtcdSettings;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
  /** The proxies to connect through; without this, none. */
  readonly proxy?: EtcdClientOptions["proxy"];
  /**
   * Called with the reason when the store cannot be used: no server answers, or those that do refuse the
   * user; and with undefined when it can be used, for the first time or again.
   */
  readonly usable?: (fault: Fault | undefined) => void;
}

export interface EtcdStore extends Store {
  readonly counts: Readonly<WatchCounts>;
}

/**
 * Opens a store; the first call connects. Calls throw Faults that name the server: UNAVAILABLE when none answers,
 * UNAUTHENTICATED, PERMISSION_DENIED, or RESOURCE_EXHAUSTED when the database is full or a value too large.
 * @throws Fault INVALID_ARGUMENT or FAILED_PRECONDITION for endpoints or TLS files that cannot be used
 */
export function etcdStore(options: EtcdStoreOptions): EtcdStore {
  return new EtcdBackedStore(options);
}

class EtcdBackedStore implements EtcdStore {
  readonly counts: WatchCounts = { opened: 0, listed: 0 };
  readonly #options: EtcdStoreOptions;
  readonly #client: EtcdClient;
  readonly #keys: Keys;
  readonly #watches = new Set<EtcdWatch>();
  readonly #leases = new Set<KeptLease>();
  /** The reasons for which the store cannot be used, by the part that found each. */
  readonly #faults = new Map<unknown, Fault>();
  #usable: boolean | undefined;

  constructor(options: EtcdStoreOptions) {
    const { settings, clock, chance, log, proxy } = options;
    this.#options = options;
    this.#keys = new Keys(settings.namespace);
    const reachable = (fault: Fault | undefined) => this.#reported(this.#client, fault);
    this.#client = new EtcdClient({ settings, clock, chance, log, proxy, reachable });
  }

  async list(
    prefix: string,
    options: Pick<CommitOptions, "timeoutMs"> = {},
  ): Promise<{ revision: number; entries: readonly Entry[] }> {
    const entries: Entry[] = [];
    const found = (entry: Entry) => void entries.push(entry);
    const { revision } = await list(this.#client, this.#keys, prefix, found, options);
    return { revision, entries };
  }

  async commit(ops: readonly Op[], options: CommitOptions = {}): Promise<number | undefined> {
    const { lease } = options;
    if (lease !== undefined && !(lease instanceof KeptLease)) {
      throw new Fault("INTERNAL", "the lease belongs to another store");
    }
    const written = await this.#write(ops, options, lease);
    if (written === undefined) return undefined;
    // The last write owns the key.
    for (const each of this.#leases) for (const { key } of ops) each.release(key);
    if (written.used !== undefined) await lease?.written(ops, written.used);
    return written.revision;
  }

  async lease({ ttlMs, remade }: LeaseOptions = {}): Promise<Lease> {
    const { clock, settings } = this.#options;
    const lease = await KeptLease.open({
      client: this.#client,
      keys: this.#keys,
      clock,
      ttlMs: ttlMs ?? settings.lease_ttl,
      remade: () => remade?.(),
      revoked: (own) => this.#leases.delete(own),
    });
    this.#leases.add(lease);
    return lease;
  }

  async *watch(prefixes: readonly string[], signal: AbortSignal): AsyncIterable<StoreUpdate> {
    if (signal.aborted) return;
    const { clock, log } = this.#options;
    const watch: EtcdWatch = new EtcdWatch(prefixes, {
      client: this.#client,
      keys: this.#keys,
      clock,
      log,
      counts: this.counts,
      refused: (fault) => this.#reported(watch, fault),
    });
    const stop = () => watch.close();
    this.#watches.add(watch);
    signal.addEventListener("abort", stop, { once: true });
    // Never rejects. Nothing waits for its end, because a call to a server that does not answer may be under way.
    void watch.run();
    try {
      for (;;) {
        const batch = await watch.next();
        if (batch === undefined) return;
        yield batch;
      }
    } finally {
      signal.removeEventListener("abort", stop);
      watch.close();
      this.#watches.delete(watch);
      if (this.#faults.has(watch)) this.#reported(watch, undefined);
    }
  }

  lead(name: string, signal: AbortSignal, candidate = ""): Promise<Leadership> {
    const { clock, settings } = this.#options;
    return lead({
      client: this.#client,
      keys: this.#keys,
      clock,
      ttlMs: settings.lease_ttl,
      name,
      candidate,
      signal,
      changes: (prefix, until) => this.watch([prefix], until),
    });
  }

  async close(): Promise<void> {
    for (const lease of this.#leases) lease.abandon();
    for (const watch of this.#watches) watch.close();
    await this.#client.close();
  }

  async #write(
    ops: readonly Op[],
    { guards = [], timeoutMs }: CommitOptions,
    lease: KeptLease | undefined,
  ): Promise<{ readonly revision: number; readonly used: EtcdLease | undefined } | undefined> {
    for (;;) {
      const used = await lease?.current;
      try {
        const revision = await commit(ops, {
          client: this.#client,
          keys: this.#keys,
          guards,
          lease: used?.id ?? 0n,
          timeoutMs,
        });
        return revision === undefined ? undefined : { revision, used };
      } catch (thrown) {
        if (lease === undefined || used === undefined || !leaseIsGone(Fault.from(thrown)))
          throw thrown;
        await lease.remake(used);
      }
    }
  }

  #reported(part: unknown, fault: Fault | undefined): void {
    if (fault === undefined) this.#faults.delete(part);
    else this.#faults.set(part, fault);
    const [reason] = this.#faults.values();
    const usable = reason === undefined;
    if (this.#usable === usable) return;
    this.#usable = usable;
    this.#options.usable?.(reason);
  }
}
