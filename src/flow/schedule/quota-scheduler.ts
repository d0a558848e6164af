// The gate of a quota scheduler: tokens of buckets. A bucket says when it will have enough. Where agents share it, their
// queues take turns by chance, each as often as its pressure demands.

import type { Chance } from "#base/chance.ts";
import type { Decision, Grant } from "../flow.ts";
import type { LabelSlots } from "../label.ts";
import type { Observer } from "../observer.ts";
import type { SchedulerRule, SettlementRule } from "../rules.ts";
import { type Counted, CountedGate, type CountedRule, isShort } from "./counted-gate.ts";
import type { Ticket } from "./front-end.ts";
import type { Wait } from "./gate.ts";
import type { Pressure } from "./queue/pressure.ts";
import { Scheduler } from "./scheduler.ts";

/** Pause before a bucket is asked again that did not say when it will have enough, ms. */
const UNKNOWN_WAIT_MS = 10;

/** Mean pause of all agents together when demand of the highest priority equals the fill rate, ms. */
const PAUSE_MS = 10;
/** Longest mean pause of one agent, ms. Agents with little load ask more often than their part, but want little. */
const LONGEST_PAUSE_MS = 250;
/** Upper bounds of the two, as fractions of the time that fills an empty bucket: a bucket that is full wastes tokens. */
const PAUSE_OF_FILL = 1 / 40;
const LONGEST_PAUSE_OF_FILL = 1 / 4;
/** Number of times that a flow of the highest priority is asked about before its time is over, on average. */
const LEAST_TIMES = 3;
/** Lowest weight of a flow, as a fraction of the highest priority, so that queues of low priorities only do not pause for long. */
const LEAST_PRIORITY = 1 / 8;

interface Buckets extends Counted {
  readonly settlement: SettlementRule | undefined;
  settle(grant: Grant, cost: number): void;
  /** Capacity and fill of buckets that other agents take from as well; undefined where none does. */
  readonly shared:
    | { readonly capacity: number; readonly amount: number; readonly intervalMs: number }
    | undefined;
}

export class BucketGate extends CountedGate<Buckets> {
  readonly #chance: Chance;
  readonly #highest: number;

  constructor(
    limiter: Buckets,
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

  /** A bucket that is far away is asked ahead of time: the tokens come while the question travels. */
  retryIn(decision: Decision, { ticket, left, aheadMs }: Wait): number | undefined {
    if (!isShort(decision) || ticket.tokens > this.limiter.most) return undefined;
    if (decision.waitMs <= 0) return UNKNOWN_WAIT_MS > left ? undefined : UNKNOWN_WAIT_MS;
    return decision.waitMs > left ? undefined : Math.max(0, decision.waitMs - aheadMs);
  }

  /**
   * Pauses are exponential: whichever agent comes first when a token is free, each comes first as often as its part of the
   * pressure says, however long it has waited and however many they are. Within its bounds, the mean is
   * PAUSE_MS · (fill rate · highest priority) ÷ pressure.
   */
  pauseMs(pressure: Pressure, { priority, patienceMs }: Ticket, now: number): number {
    const { shared } = this.limiter;
    if (shared === undefined || shared.amount <= 0) return 0;
    const { amount, intervalMs, capacity } = shared;
    const perMs = amount / intervalMs;
    const fillMs = capacity / perMs;
    const highest = this.#highest;
    const important = Math.max(LEAST_PRIORITY, priority / highest);
    const together = Math.min(PAUSE_MS, fillMs * PAUSE_OF_FILL);
    const mean = Math.min(
      LONGEST_PAUSE_MS,
      fillMs * LONGEST_PAUSE_OF_FILL,
      patienceMs / (LEAST_TIMES * important),
      (together * perMs * highest) / pressure.weight(perMs, highest * LEAST_PRIORITY, now),
    );
    return -Math.log(1 - this.#chance()) * mean;
  }
}

/** Tokens that come back when a flow ends let those that wait pass. */
export class BucketScheduler extends Scheduler<BucketGate> {
  get settlement(): SettlementRule | undefined {
    return this.gate.settlement;
  }

  /** A flow that is estimated to cost nothing may still cost something in the end. */
  protected override get freeOfCharge(): boolean {
    return this.settlement === undefined;
  }

  settle(grant: Grant, cost: number): void {
    this.gate.settle(grant, cost);
    if (cost < grant.amount) this.freed(grant);
  }
}
