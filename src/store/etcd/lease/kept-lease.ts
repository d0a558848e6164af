// A lease that outlives its own loss: when etcd has ended it, another one takes its place and its keys are written again.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Lease, Op } from "../../store.ts";
import type { EtcdClient } from "../client.ts";
import type { Keys } from "../keys.ts";
import { commit } from "../transaction.ts";
import { EtcdLease } from "./lease.ts";

export interface KeptLeaseOptions {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly remade: () => void;
  readonly revoked: (lease: KeptLease) => void;
}

export class KeptLease implements Lease {
  readonly #options: KeptLeaseOptions;
  /** What was last written under the lease. */
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

  written(ops: readonly Op[]): void {
    for (const op of ops) if (op.kind === "put") this.#values.set(op.key, op.value);
  }

  /** The keys belong to another lease or to none. */
  released(ops: readonly Op[]): void {
    for (const { key } of ops) this.#values.delete(key);
  }

  /** Makes the lease again, unless that has happened meanwhile. */
  async remake(lost: EtcdLease): Promise<void> {
    if ((await this.#current) !== lost || this.#over) return;
    lost.abandon();
    const { remade } = this.#options;
    this.#current = this.#again();
    await this.#current;
    if (!this.#over) remade();
  }

  async revoke(): Promise<void> {
    this.#over = true;
    this.#options.revoked(this);
    // A lease that is being made again has no end to wait for.
    if (this.#options.client.isAway) this.abandon();
    else await (await this.#current).revoke();
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
    return EtcdLease.grant(client, clock, ttlMs, () => {
      this.#current
        .then((lease) => this.remake(lease))
        // Only a closed store ends the attempts.
        .catch(() => undefined);
    });
  }

  async #again(): Promise<EtcdLease> {
    const { client, keys } = this.#options;
    for (let round = 1; ; round++) {
      try {
        const lease = await this.#grant();
        const ops = [...this.#values].map(([key, value]) => ({ kind: "put", key, value }) as const);
        if (ops.length > 0) await commit(ops, { client, keys, guards: [], lease: lease.id });
        return lease;
      } catch (thrown) {
        if (Fault.from(thrown).code === "CANCELLED") throw thrown;
        await client.pause(round);
      }
    }
  }
}
