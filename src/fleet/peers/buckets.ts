// One limiter's token buckets, counted by the agents of the group. What this agent counts itself is decided at once; of
// what others count it leases tokens, and asks them for the rest.

import type { BucketHome, BucketReply, BucketRequest } from "#flow/counters/bucket-home.ts";
import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { CounterName, SharedBucketEngine } from "#flow/counters/shared-counters.ts";
import type { InQueue, Pending } from "#flow/flow.ts";
import type { LeaseAgent } from "../leases/lease-agent.ts";
import { SharedBuckets } from "../leases/shared-buckets.ts";
import type { OwnedLimiter } from "./owned-limiters.ts";
import type { PeerGroup } from "./peer-group.ts";

export class PeerBuckets implements SharedBucketEngine {
  readonly #group: PeerGroup;
  readonly #name: CounterName;
  readonly #counts: LeaseAgent["counts"];
  /** Buckets that others count. */
  readonly #elsewhere: SharedBuckets;
  /** Undefined before the first numbers, and when this is closed. */
  #limiter: OwnedLimiter | undefined;
  #closed = false;

  constructor(group: PeerGroup, leases: LeaseAgent, name: CounterName) {
    this.#group = group;
    this.#name = name;
    this.#counts = leases.counts;
    const home: BucketHome = {
      // Adopted here.
      adopt: () => undefined,
      close: () => undefined,
      ask: (value, request, _now, answered, late) => this.#ask(value, request, answered, late),
    };
    this.#elsewhere = new SharedBuckets(leases, home);
  }

  adopt(params: BucketParams): void {
    this.#limiter ??= this.#group.owned.plan(this.#name);
    this.#limiter.adopt(params);
    this.#elsewhere.adopt(params);
  }

  get alone(): boolean {
    return this.#group.alone;
  }

  /** Known without asking only while this agent is alone. */
  peek(value: string | undefined, want: number, params: BucketParams, now: number): EngineAnswer {
    const limiter = this.#limiter;
    if (limiter === undefined || !this.#group.alone) return UNDECIDED;
    return limiter.buckets.peek(value, want, params, now);
  }

  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer> {
    const group = this.#group;
    const limiter = this.#limiterFor(params);
    if (limiter === undefined) return UNDECIDED;
    if (group.alone) {
      this.#counts.own++;
      return limiter.buckets.take(value, want, params, now);
    }
    if (!group.ready) return UNDECIDED;
    const { lo, hi } = group.owned.hashOf(value, limiter);
    if (!group.countsNow(lo, hi)) return this.#elsewhere.take(value, want, params, now, queued);
    this.#counts.own++;
    return group.take(limiter, lo, hi, want, params, now);
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    const group = this.#group;
    if (!group.ready) return false;
    const limiter = this.#limiterFor(params);
    if (limiter === undefined) return false;
    const { lo, hi } = group.owned.hashOf(value, limiter);
    return group.countsNow(lo, hi)
      ? group.giveBack(limiter, lo, hi, amount, params)
      : this.#elsewhere.giveBack(value, amount, id, params);
  }

  charge(value: string | undefined, amount: number, id: string, params: BucketParams): void {
    if (this.#limiterFor(params) !== undefined) this.#elsewhere.charge(value, amount, id, params);
  }

  close(): void {
    this.#closed = true;
    this.#elsewhere.close();
    if (this.#limiter !== undefined) this.#group.owned.unplan(this.#limiter);
    this.#limiter = undefined;
  }

  /**
   * The limiter that counts by these parameters. Requests that began before this was closed are counted as those of other
   * agents are, so that the limiter does not become one of the plan again. Undefined when there are too many such limiters.
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

  #ask(
    value: string | undefined,
    request: BucketRequest,
    answered: (reply: BucketReply | undefined) => void,
    late: (reply: BucketReply) => void,
  ): boolean {
    const limiter = this.#limiter;
    if (limiter === undefined) return false;
    const { lo, hi } = this.#group.owned.hashOf(value, limiter);
    return this.#group.ask({ limiter, lo, hi, request }, answered, late);
  }
}
