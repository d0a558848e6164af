// One limiter's token buckets, counted by the agents of the group.

import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { CounterName, SharedEngine } from "#flow/counters/shared-counters.ts";
import type { Pending } from "#flow/flow.ts";
import type { OwnedLimiter } from "./owned-limiters.ts";
import type { PeerGroup } from "./peer-group.ts";

export class PeerBuckets implements SharedEngine<BucketParams> {
  readonly #group: PeerGroup;
  readonly #name: CounterName;
  /** Undefined before the first numbers, and when this is closed. */
  #limiter: OwnedLimiter | undefined;

  constructor(group: PeerGroup, name: CounterName) {
    this.#group = group;
    this.#name = name;
  }

  adopt(params: BucketParams): void {
    this.#limiter ??= this.#group.owned.plan(this.#name);
    this.#limiter.adopt(params);
  }

  /** What this agent counts itself is known without asking. */
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
  ): EngineAnswer | Pending<EngineAnswer> {
    const group = this.#group;
    const limiter = this.#planned(params);
    if (group.alone) return limiter.buckets.take(value, want, params, now);
    if (value === undefined) return group.take(limiter, 0, limiter.place, want, params, now);
    const { hash } = group.owned;
    hash.of(value);
    return group.take(limiter, hash.lo, hash.hi, want, params, now);
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    const group = this.#group;
    const limiter = this.#planned(params);
    if (value === undefined) return group.giveBack(limiter, 0, limiter.place, amount, id, params);
    const { hash } = group.owned;
    hash.of(value);
    return group.giveBack(limiter, hash.lo, hash.hi, amount, id, params);
  }

  #planned(params: BucketParams): OwnedLimiter {
    this.#limiter ??= this.#group.owned.plan(this.#name);
    this.#limiter.adopt(params);
    return this.#limiter;
  }

  close(): void {
    if (this.#limiter !== undefined) this.#group.owned.unplan(this.#limiter);
    this.#limiter = undefined;
  }
}
