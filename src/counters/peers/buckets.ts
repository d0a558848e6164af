// One limiter's token buckets, counted by the agents of the group. Buckets that this agent owns are counted in process;
// the others are leased from their owners.

import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { CounterName } from "#flow/counters/shared-counters.ts";
import type { InQueue, Pending } from "#flow/flow.ts";
import type { LeaseHolder } from "../leases/lease-holder.ts";
import { LeasedBuckets } from "../leases/leased-buckets.ts";
import type { OwnedLimiter } from "./owned-limiters.ts";
import type { PeerGroup } from "./peer-group.ts";

export class PeerBuckets extends LeasedBuckets {
  readonly #group: PeerGroup;
  readonly #name: CounterName;
  readonly #counts: LeaseHolder["counts"];
  /** Undefined before the first numbers and after `close`. */
  #limiter: OwnedLimiter | undefined;
  #closed = false;

  constructor(group: PeerGroup, holder: LeaseHolder, name: CounterName) {
    super(
      holder,
      group.requests.ownerOf(() => this.#limiter),
    );
    this.#group = group;
    this.#name = name;
    this.#counts = holder.counts;
  }

  override adopt(params: BucketParams): void {
    this.#limiter ??= this.#group.owned.plan(this.#name);
    this.#limiter.adopt(params);
    super.adopt(params);
  }

  get exclusive(): boolean {
    return this.#group.isOnlyMember;
  }

  override take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer> {
    const group = this.#group;
    const limiter = this.#limiterFor(params);
    if (limiter === undefined) return UNDECIDED;
    if (group.isOnlyMember) {
      this.#counts.own++;
      return limiter.buckets.take(value, want, params, now);
    }
    if (!group.ready) return UNDECIDED;
    const { lo, hi } = group.owned.hashOf(value, limiter);
    if (!group.owns(lo, hi)) return super.take(value, want, params, now, queued);
    this.#counts.own++;
    return group.take(limiter, lo, hi, want, params, now);
  }

  override giveBack(
    value: string | undefined,
    amount: number,
    id: string,
    params: BucketParams,
  ): boolean {
    const group = this.#group;
    if (!group.ready) return false;
    const limiter = this.#limiterFor(params);
    if (limiter === undefined) return false;
    const { lo, hi } = group.owned.hashOf(value, limiter);
    return group.owns(lo, hi)
      ? group.giveBack(limiter, lo, hi, amount, params)
      : super.giveBack(value, amount, id, params);
  }

  override charge(
    value: string | undefined,
    amount: number,
    id: string,
    params: BucketParams,
  ): void {
    if (this.#limiterFor(params) !== undefined) super.charge(value, amount, id, params);
  }

  override close(): void {
    this.#closed = true;
    super.close();
    if (this.#limiter !== undefined) this.#group.owned.unplan(this.#limiter);
    this.#limiter = undefined;
  }

  /**
   * The limiter for these parameters. After `close`, requests that are still under way are counted like those of another
   * agent, so that the limiter does not return to the plan. Undefined when there are too many such limiters.
   */
  #limiterFor(params: BucketParams): OwnedLimiter | undefined {
    const { owned } = this.#group;
    if (this.#closed) {
      const known = owned.known(this.#name);
      known?.agree(params);
      return known;
    }
    this.#limiter ??= owned.plan(this.#name);
    this.#limiter.adopt(params);
    return this.#limiter;
  }
}
