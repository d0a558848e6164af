// A lease of etcd that is kept alive until it is revoked, is lost, or the store closes.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { EtcdClient } from "../client.ts";

/** Milliseconds for ending a lease early: the end of a process waits for it. */
export const REVOKE_MS = 500;
/** Renewals during the life of a lease. */
const RENEWALS = 3;

export class EtcdLease {
  readonly id: bigint;
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #over = new AbortController();
  readonly #lost: () => void;
  /** When the lease ends unless it is renewed, by a clock that started before that of the server. */
  #until: number;
  #disarm: () => void = () => undefined;

  private constructor(
    id: bigint,
    granted: { readonly at: number; readonly ttlMs: number },
    options: { readonly client: EtcdClient; readonly clock: Clock; readonly lost: () => void },
  ) {
    this.id = id;
    this.#client = options.client;
    this.#clock = options.clock;
    this.#lost = options.lost;
    this.#ttlMs = granted.ttlMs;
    this.#until = granted.at + granted.ttlMs;
    this.#arm();
  }

  /** `lost` is called once, when the server says that the lease is gone. Rejects when no server answers in time. */
  static async grant(
    client: EtcdClient,
    clock: Clock,
    ttlMs: number,
    lost: () => void,
  ): Promise<EtcdLease> {
    const at = clock.now();
    const ttl = Math.max(1, Math.ceil(ttlMs / 1000));
    // If the call is made twice, the first lease expires by itself.
    const granted = await client.call("grant", { ttl }, { repeatable: true });
    const life = { at, ttlMs: Number(granted.ttl) * 1000 };
    return new EtcdLease(granted.id, life, { client, clock, lost });
  }

  /** When the server may have ended the lease, on the monotonic clock. It moves with each renewal. */
  get validUntil(): number {
    return this.#until;
  }

  /** Deletes the keys of the lease. */
  async revoke(): Promise<void> {
    this.abandon();
    // Where no server answers, the lease expires by itself.
    if (this.#client.isAway) return;
    const options = { repeatable: true, timeoutMs: REVOKE_MS };
    await this.#client.call("revoke", { id: this.id }, options).catch((thrown) => {
      if (Fault.from(thrown).code !== "NOT_FOUND") throw thrown;
    });
  }

  /** Ends the renewals; the lease expires by itself. */
  abandon(): void {
    this.#over.abort();
    this.#disarm();
  }

  #arm(): void {
    this.#disarm = this.#clock.alarm(this.#ttlMs / RENEWALS, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const at = this.#clock.now();
    try {
      // A short time limit, because the next renewal is due soon.
      const timeoutMs = Math.max(1_000, this.#ttlMs / RENEWALS);
      const { ttl } = await this.#client.call(
        "keepAlive",
        { id: this.id },
        { repeatable: true, timeoutMs },
      );
      if (this.#over.signal.aborted) return;
      if (ttl <= 0n) {
        this.abandon();
        this.#lost();
        return;
      }
      this.#until = at + Number(ttl) * 1000;
    } catch {
      // The client reports servers that do not answer. The next answer tells whether the lease still exists.
    }
    if (!this.#over.signal.aborted) this.#arm();
  }
}
