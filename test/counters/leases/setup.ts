// Agents that share one limiter, and its owner, in one process and in time that the test advances.

import type { BucketOwner, BucketReply, BucketRequest } from "#counters/leases/bucket-owner.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { LeasedBuckets } from "#counters/leases/leased-buckets.ts";
import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import type { LeaseSettings } from "#counters/settings.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { testContext } from "../../flow/limit/setup.ts";

export interface Sent {
  readonly value: string | undefined;
  readonly request: BucketRequest;
  /** Delivers the owner's reply. */
  readonly answer: () => void;
  /** There is no reply in time; the returned function delivers it later. */
  readonly lose: () => () => void;
}

/** Requests are answered at once, unless `hold` is set: then they wait in `sent`. */
export class TestFleet {
  readonly context = testContext();
  readonly owned = new OwnedBuckets(new BucketStore(this.context, [1, 2]));
  readonly sent: Sent[] = [];
  readonly requests: BucketRequest[] = [];
  hold = false;
  away = false;
  params: BucketParams;

  constructor(params: BucketParams) {
    this.params = params;
  }

  get now(): number {
    return this.context.clock.now();
  }

  advance(ms: number): void {
    this.context.clock.advance(ms);
  }

  agent(over: Partial<LeaseSettings> = {}): TestAgent {
    return new TestAgent(this, { enabled: true, duration: 1_000, max_keys: 1_000, ...over });
  }

  /** The owner's own view: tokens that it would give somebody who asks about each flow. */
  free(value: string | undefined = "k"): number {
    const { tokens } = this.owned.ask(
      value,
      { runs: [], back: 0, overdraft: "refuse", lease: undefined },
      this.params,
      this.now,
    );
    return tokens;
  }

  owner(): BucketOwner {
    return {
      adopt: (params) => this.owned.adopt(params),
      ask: (value, request, answered, late) => {
        if (this.away) return false;
        this.requests.push(request);
        let reply: BucketReply | undefined;
        const decide = () => {
          reply ??= this.owned.ask(value, request, this.params, this.now);
          return reply;
        };
        if (!this.hold) answered(decide());
        else {
          const lose = () => {
            answered(undefined);
            return () => late(decide());
          };
          this.sent.push({ value, request, answer: () => answered(decide()), lose });
        }
        return true;
      },
    };
  }
}

let agents = 0;

export class TestAgent {
  readonly leases: LeaseHolder;
  readonly buckets: LeasedBuckets;
  readonly #fleet: TestFleet;

  constructor(fleet: TestFleet, settings: LeaseSettings) {
    this.#fleet = fleet;
    this.leases = new LeaseHolder(++agents, fleet.context.clock, settings);
    this.buckets = new LeasedBuckets(this.leases, fleet.owner());
    this.buckets.adopt(fleet.params);
  }

  get counts() {
    return this.leases.counts;
  }

  start(want = 1, value: string | undefined = "k"): EngineAnswer | Pending<EngineAnswer> {
    return this.buckets.take(value, want, this.#fleet.params, this.#fleet.now);
  }

  /** The answer, which has to be there. */
  take(want = 1, value: string | undefined = "k"): EngineAnswer {
    const answer = this.start(want, value);
    if (answer instanceof Pending) throw new Error("the answer is not there yet");
    return { ...answer };
  }

  /** The number of flows that pass, of `times`. */
  pass(times: number, want = 1, value: string | undefined = "k"): number {
    let passed = 0;
    for (let n = 0; n < times; n++) if (this.take(want, value).outcome === "granted") passed++;
    return passed;
  }

  giveBack(amount: number, value: string | undefined = "k"): boolean {
    return this.buckets.giveBack(value, amount, "", this.#fleet.params);
  }
}
