// Agents that share one limiter, and its home, in one process and in time that the test advances.

import { LeaseAgent, type LeaseSettings } from "#fleet/leases/lease-agent.ts";
import { SharedBuckets } from "#fleet/leases/shared-buckets.ts";
import type { BucketHome, BucketReply, BucketRequest } from "#flow/counters/bucket-home.ts";
import type { BucketParams, EngineAnswer } from "#flow/counters/counter-engine.ts";
import { OwnedBuckets } from "#flow/counters/owned-buckets.ts";
import { Pending } from "#flow/flow.ts";
import { testContext } from "../../flow/limit/setup.ts";

export interface Sent {
  readonly value: string | undefined;
  readonly request: BucketRequest;
  /** Delivers the home's reply. */
  readonly answer: () => void;
  /** There is no reply in time; the returned function delivers it later. */
  readonly lose: () => () => void;
}

/** Requests are answered at once, unless `hold` is set: then they wait in `sent`. */
export class TestFleet {
  readonly context = testContext();
  readonly owned = new OwnedBuckets(this.context);
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

  /** The home's own view: tokens that it would give somebody who asks about each flow. */
  free(value: string | undefined = "k"): number {
    const { tokens } = this.owned.ask(
      value,
      { runs: [], back: 0, overdraft: "refuse", lease: undefined },
      this.params,
      this.now,
    );
    return tokens;
  }

  home(): BucketHome {
    return {
      adopt: (params) => this.owned.adopt(params),
      ask: (value, request, _now, answered, late) => {
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
      close: () => undefined,
    };
  }
}

let agents = 0;

export class TestAgent {
  readonly leases: LeaseAgent;
  readonly buckets: SharedBuckets;
  readonly #fleet: TestFleet;

  constructor(fleet: TestFleet, settings: LeaseSettings) {
    this.#fleet = fleet;
    this.leases = new LeaseAgent(++agents, fleet.context.clock, settings);
    this.buckets = new SharedBuckets(this.leases, fleet.home());
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
