// A lease that is replaced when etcd has ended it: its keys are written again under the new one.

import { within } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Lease, Op } from "../../store.ts";
import type { EtcdClient } from "../client.ts";
import { leaseIsGone } from "../faults.ts";
import type { Keys } from "../keys.ts";
import { commit } from "../transaction.ts";
import { EtcdLease, REVOKE_MS } from "./lease.ts";

interface KeptLeaseOptions {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly remade: () => void;
  readonly revoked: (lease: KeptLease) => void;
}

export class KeptLease implements Lease {
  readonly #options: KeptLeaseOptions;
  /** The last values written under the lease, by key. */
  readonly #values = new Map<string, Uint8Array>();
  #current: Promise<EtcdLease>;
  #over = false;

  private constructor(options: KeptLeaseOptions) {
    this.#options = options;
    this.#current = this.#grant();
  }

  static async open(options: KeptLeaseOptions): Promise<KeptLease> {
    const lease = new KeptLease(options);
    await lease.#current;
    return lease;
  }

  /** The lease in etcd; while it is made again, the one to come. */
  get current(): Promise<EtcdLease> {
    return this.#current;
  }

  /**
   * These were written while the lease in etcd was `used`. Resolves when they are written under the present one: `used`
   * may have been lost before the reply came, and then its successor does not have them.
   */
  async written(ops: readonly Op[], used: EtcdLease): Promise<void> {
    const puts = ops.filter((op) => op.kind === "put");
    for (const { key, value } of puts) this.#values.set(key, value);
    const lease = await this.#current;
    if (lease === used || this.#over) return;
    const own = puts.filter(({ key, value }) => this.#values.get(key) === value);
    try {
      await this.#put(lease, own);
    } catch (thrown) {
      if (!leaseIsGone(Fault.from(thrown))) throw thrown;
      await this.remake(lease);
    }
  }

  release(key: string): void {
    this.#values.delete(key);
  }

  /** Makes the lease again, unless that has happened meanwhile. @throws Fault CANCELLED when it is over */
  async remake(lost: EtcdLease): Promise<void> {
    const current = this.#current;
    const lease = await current;
    if (this.#over) throw over();
    if (lease !== lost || this.#current !== current) return;
    lost.abandon();
    const { remade } = this.#options;
    this.#current = this.#again();
    await this.#current;
    if (!this.#over) remade();
  }

  async revoke(): Promise<void> {
    this.#over = true;
    const { client, clock, revoked } = this.#options;
    revoked(this);
    const revoking = this.#current.then(
      (lease) => lease.revoke(),
      () => undefined,
    );
    // A lease that is being made again may have no end to wait for. It is revoked when it is there.
    if (client.isAway) revoking.catch(() => undefined);
    else await within(REVOKE_MS, clock, revoking);
  }

  /** Lets the lease expire. */
  abandon(): void {
    this.#over = true;
    this.#current.then(
      (lease) => lease.abandon(),
      () => undefined,
    );
  }

  #grant(): Promise<EtcdLease> {
    const { client, clock, ttlMs } = this.#options;
    const granted = EtcdLease.grant(client, clock, ttlMs, () => {
      granted
        .then((lease) => this.remake(lease))
        // Only a closed store and a lease that is over end the attempts.
        .catch(() => undefined);
    });
    return granted;
  }

  async #again(): Promise<EtcdLease> {
    const { client } = this.#options;
    for (let round = 1; !this.#over; round++) {
      let lease: EtcdLease | undefined;
      try {
        lease = await this.#grant();
        await this.#put(
          lease,
          [...this.#values].map(([key, value]) => ({ kind: "put", key, value }) as const),
        );
        return lease;
      } catch (thrown) {
        // A lease without its keys is of no use, and if it were renewed it would never end.
        lease?.abandon();
        if (Fault.from(thrown).code === "CANCELLED") throw thrown;
        await client.pause(round);
      }
    }
    throw over();
  }

  async #put(lease: EtcdLease, ops: readonly Op[]): Promise<void> {
    const { client, keys } = this.#options;
    // A revoked lease must not get its keys back.
    if (ops.length === 0 || this.#over) return;
    await commit(ops, { client, keys, guards: [], lease: lease.id });
  }
}

function over(): Fault {
  return new Fault("CANCELLED", "the lease was revoked");
}
