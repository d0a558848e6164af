// The gate of a quota scheduler: tokens of buckets. A bucket says when it will have enough. Where agents share it, their
// queues take turns by chance, in proportion to their offered loads.

import type { Chance } from "#base/chance.ts";
import type { Decision, Grant } from "../flow.ts";
import type { LabelSlots } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { SchedulerRule, SettlementRule } from "../rules.ts";
import { CountedGate, type CountedLimiter, type CountedRule, isShort } from "./counted-gate.ts";
import type { FlowJob } from "./front-end.ts";
import type { Attempt } from "./gate.ts";
import type { OfferedLoad } from "./queue/offered-load.ts";
import { Scheduler } from "./scheduler.ts";

/** Pause before asking a bucket that did not say when it will have enough, ms. */
const UNKNOWN_WAIT_MS = 10;

/** Mean pause of all agents together while flows of the highest priority ask for as much as the fill rate, ms. */
const PAUSE_MS = 10;
/** Longest mean pause of one agent, ms. It lets agents with little load ask more often than their share. */
const LONGEST_PAUSE_MS = 250;
/** Upper bounds of both, as fractions of the time that fills an empty bucket, because a full bucket wastes tokens. */
const PAUSE_OF_FILL = 1 / 40;
const LONGEST_PAUSE_OF_FILL = 1 / 4;
/** Mean number of questions about a flow of the highest priority before its time is over. */
const MIN_ATTEMPTS = 3;
/** Lowest weight of a flow, as a fraction of the highest priority. It bounds the pauses of queues of low priorities. */
const MIN_PRIORITY = 1 / 8;

interface BucketCounter extends CountedLimiter {
  readonly settlement: SettlementRule | undefined;
  settle(grant: Grant, cost: number): void;
  /** Parameters of buckets that are shared with other agents; undefined if they are not shared. */
  readonly shared:
    | { readonly capacity: number; readonly amount: number; readonly intervalMs: number }
    | undefined;
}

export class BucketGate extends CountedGate<BucketCounter> {
  readonly #chance: Chance;
  readonly #highest: number;

  constructor(
    limiter: BucketCounter,
    rule: CountedRule & { readonly scheduler: SchedulerRule },
    slots: LabelSlots,
    { observer, chance }: { readonly observer: Observer; readonly chance: Chance },
  ) {
    super(limiter, rule, slots, observer);
    this.#chance = chance;
    const { workloads, defaultParameters } = rule.scheduler;
    const all = workloads.map(({ parameters }) => parameters);
    this.#highest = Math.max(...[defaultParameters, ...all].map(({ priority }) => priority));
  }

  get settlement(): SettlementRule | undefined {
    return this.limiter.settlement;
  }

  settle(grant: Grant, cost: number): void {
    this.limiter.settle(grant, cost);
  }

  /** A bucket that is far away is asked early, because its tokens arrive while the question travels. */
  retryIn(decision: Decision, { job, leftMs, aheadMs }: Attempt): number | undefined {
    if (!isShort(decision) || job.tokens > this.limiter.maxTokens) return undefined;
    if (decision.waitMs <= 0) return UNKNOWN_WAIT_MS > leftMs ? undefined : UNKNOWN_WAIT_MS;
    return decision.waitMs > leftMs ? undefined : Math.max(0, decision.waitMs - aheadMs);
  }

  /**
   * Pauses are exponential, and these have no memory: each agent comes first in proportion to its offered load, however long
   * it has waited and however many agents there are. Within its bounds, the mean is
   * PAUSE_MS · (fill rate · highest priority) ÷ offered load.
   */
  pauseMs(load: OfferedLoad, { priority, patienceMs }: FlowJob, now: number): number {
    const { shared } = this.limiter;
    if (shared === undefined || shared.amount <= 0) return 0;
    const { amount, intervalMs, capacity } = shared;
    const perMs = amount / intervalMs;
    const fillMs = capacity / perMs;
    const highest = this.#highest;
    const important = Math.max(MIN_PRIORITY, priority / highest);
    const together = Math.min(PAUSE_MS, fillMs * PAUSE_OF_FILL);
    const mean = Math.min(
      LONGEST_PAUSE_MS,
      fillMs * LONGEST_PAUSE_OF_FILL,
      patienceMs / (MIN_ATTEMPTS * important),
      (together * perMs * highest) / load.weight(perMs, highest * MIN_PRIORITY, now),
    );
    return -Math.log(1 - this.#chance()) * mean;
  }
}

/** Tokens that come back when a flow ends wake the queue of its key. */
export class BucketScheduler extends Scheduler<BucketGate> {
  get settlement(): SettlementRule | undefined {
    return this.gate.settlement;
  }

  /** A flow that is estimated to cost nothing may cost something in the end. */
  protected override get freeOfCharge(): boolean {
    return this.settlement === undefined;
  }

  settle(grant: Grant, cost: number): void {
    this.gate.settle(grant, cost);
    if (cost < grant.amount) this.freed(grant);
  }
}
