// One limiter's token buckets, which agents share. Its parameters say whether each flow is counted before it passes, or
// on credit.

import type { BucketHome } from "#flow/counters/bucket-home.ts";
import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import type { SharedBucketEngine } from "#flow/counters/shared-counters.ts";
import type { InQueue, Pending } from "#flow/flow.ts";
import { Debts } from "./debts.ts";
import { LazyBuckets } from "./lazy-buckets.ts";
import type { LeaseAgent } from "./lease-agent.ts";
import { LeasedBuckets } from "./leased-buckets.ts";

export class SharedBuckets implements SharedBucketEngine {
  readonly #home: BucketHome;
  readonly #leased: LeasedBuckets;
  readonly #lazy: LazyBuckets;
  readonly #debts: Debts;

  constructor(agent: LeaseAgent, home: BucketHome) {
    this.#home = home;
    this.#debts = new Debts(agent, home);
    this.#leased = new LeasedBuckets(agent, home);
    this.#lazy = new LazyBuckets(agent, home);
  }

  adopt(params: BucketParams): void {
    if (params.lazySyncs > 0) this.#lazy.adopt(params);
    else this.#leased.adopt(params);
  }

  /** Nothing is known without asking. */
  peek(): EngineAnswer {
    return UNDECIDED;
  }

  take(
    value: string | undefined,
    want: number,
    params: BucketParams,
    now: number,
    queued?: InQueue,
  ): EngineAnswer | Pending<EngineAnswer> {
    const answer = params.lazySyncs > 0 ? this.#lazy.take(value, want, params, now) : undefined;
    return answer ?? this.#leased.take(value, want, params, now, queued);
  }

  giveBack(value: string | undefined, amount: number, id: string, params: BucketParams): boolean {
    return params.lazySyncs > 0
      ? this.#lazy.giveBack(value, amount, params)
      : this.#leased.giveBack(value, amount, id, params);
  }

  charge(value: string | undefined, amount: number, _id: string, params: BucketParams): void {
    this.adopt(params);
    this.#debts.charge(value, amount);
  }

  close(): void {
    this.#debts.close();
    this.#leased.close();
    this.#lazy.close();
    this.#home.close();
  }
}
