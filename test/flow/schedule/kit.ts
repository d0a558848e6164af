// Schedulers in virtual time: the rules, numbers and flows of a test, and a clock whose alarms are the only events.

import { seededChance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { type Decision, type Flow, grantOf, NO_DETAIL, Pending } from "#flow/flow.ts";
import { LabelSlots, Labels } from "#flow/label.ts";
import type { Limiter } from "#flow/limit/limiter.ts";
import { type Anomaly, NO_OBSERVER, type ScheduledFlow } from "#flow/observer.ts";
import { bindRule, newState, type SharedContext, shareContext } from "#flow/plan/kinds.ts";
import type {
  ConcurrencySchedulerRule,
  LimiterNumbers,
  LimiterRule,
  LoadSchedulerNumbers,
  LoadSchedulerRule,
  QuotaSchedulerRule,
  SchedulerRule,
  WorkloadRule,
} from "#flow/rules.ts";
import type { QueueSet } from "#flow/schedule/queue/queue-set.ts";
import { claims, flowOf } from "../../kit/sluice/flow.ts";

const NAMED = { policyName: "policy", policyHash: "hash", componentId: "root.0" } as const;

const COMPONENT = {
  ...NAMED,
  selectors: [],
  onFailure: "local",
  onMissingLabel: "pass",
  deniedStatus: 0,
} as const;

/** A workload of the flows whose label `w` is its name. */
export function workload(
  name: string,
  priority: number,
  over: Partial<WorkloadRule["parameters"]> = {},
): WorkloadRule {
  return {
    name,
    matcher: { labels: { w: name }, list: [], expression: undefined },
    parameters: { priority, tokens: 1, queueTimeoutMs: undefined, ...over },
  };
}

export function schedulerRule(over: Partial<SchedulerRule> = {}): SchedulerRule {
  return {
    workloads: [],
    defaultParameters: { priority: 1, tokens: 1, queueTimeoutMs: undefined },
    deadlineMarginMs: 10,
    tokensLabelKey: "",
    priorityLabelKey: "",
    workloadLabelKey: "",
    fairnessLabelKey: "",
    ...over,
  };
}

export function quotaRule(
  scheduler: Partial<SchedulerRule> = {},
  over: Partial<QuotaSchedulerRule> = {},
): QuotaSchedulerRule {
  return {
    ...COMPONENT,
    kind: "quota_scheduler",
    limitByLabelKey: "",
    intervalMs: 1_000,
    continuousFill: true,
    delayInitialFill: false,
    maxIdleMs: 7_200_000,
    lazySyncs: 0,
    scheduler: schedulerRule(scheduler),
    ...over,
  };
}

export function concurrencyQueueRule(
  scheduler: Partial<SchedulerRule> = {},
  over: Partial<ConcurrencySchedulerRule> = {},
): ConcurrencySchedulerRule {
  return {
    ...COMPONENT,
    kind: "concurrency_scheduler",
    limitByLabelKey: "",
    maxInflightMs: 60_000,
    maxIdleMs: 7_200_000,
    scheduler: schedulerRule(scheduler),
    ...over,
  };
}

export function loadRule(
  scheduler: Partial<SchedulerRule> = {},
  over: Partial<LoadSchedulerRule> = {},
): LoadSchedulerRule {
  return {
    ...COMPONENT,
    kind: "load_scheduler",
    onFailure: "open",
    scheduler: schedulerRule(scheduler),
    ...over,
  };
}

export function quota(bucketCapacity: number, fillAmount: number, passThrough = false) {
  return {
    ...NAMED,
    kind: "quota_scheduler",
    bucketCapacity,
    fillAmount,
    passThrough,
  } as const satisfies LimiterNumbers;
}

export function slots(maxConcurrency: number, passThrough = false) {
  return {
    ...NAMED,
    kind: "concurrency_scheduler",
    maxConcurrency,
    passThrough,
  } as const satisfies LimiterNumbers;
}

export function load(loadMultiplier: number, over: Partial<LoadSchedulerNumbers> = {}) {
  return {
    ...NAMED,
    kind: "load_scheduler",
    loadMultiplier,
    passThrough: false,
    tokensByWorkload: new Map<string, number>(),
    validUntil: Number.POSITIVE_INFINITY,
    ...over,
  } as const satisfies LimiterNumbers;
}

/** A clock that jumps from event to event. */
export class VirtualClock implements Clock {
  #now = 1_000_000;
  #alarms = new Set<{ readonly at: number; readonly ring: () => void }>();

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.wallOf(this.#now);
  }

  wallOf(at: number): number {
    return 1_700_000_000_000 + at - 1_000_000;
  }

  alarm(ms: number, ring: () => void): () => void {
    const alarm = { at: this.#now + ms, ring };
    this.#alarms.add(alarm);
    return () => void this.#alarms.delete(alarm);
  }

  /** Number of alarms that are set. */
  get alarms(): number {
    return this.#alarms.size;
  }

  /** Rings what is due until then, in order, and stops there. */
  advanceTo(until: number): void {
    for (;;) {
      let first: { readonly at: number; readonly ring: () => void } | undefined;
      for (const alarm of this.#alarms) {
        if (alarm.at <= until && (first === undefined || alarm.at < first.at)) first = alarm;
      }
      if (first === undefined) break;
      this.#alarms.delete(first);
      this.#now = Math.max(this.#now, first.at);
      first.ring();
    }
    this.#now = until;
  }

  advance(ms: number): void {
    this.advanceTo(this.#now + ms);
  }
}

/** A decision with the fields of every detail. */
export type FlatDecision = Decision & typeof NO_DETAIL;

/** One flow that was given to a scheduler. */
export interface Asked {
  /** Undefined while it waits. */
  decision: FlatDecision | undefined;
  /** The caller leaves. */
  leave(): void;
}

/** One scheduler, which is asked with plain label records. */
export class SchedulerBench {
  readonly clock: VirtualClock;
  readonly anomalies: Anomaly[] = [];
  readonly scheduled: ScheduledFlow[] = [];
  readonly missing: string[] = [];
  readonly context: SharedContext;
  readonly limiter: Limiter;
  readonly queues: QueueSet;
  readonly state: { close(): void };
  readonly #slots = new LabelSlots();

  constructor(
    rule: LimiterRule,
    numbers?: LimiterNumbers,
    over: Partial<SharedContext> | ((context: SharedContext) => Partial<SharedContext>) = {},
    clock = new VirtualClock(),
  ) {
    this.clock = clock;
    const observer = {
      ...NO_OBSERVER,
      anomaly: (what: Anomaly) => void this.anomalies.push(what),
      scheduled: (_component: unknown, flow: ScheduledFlow) => void this.scheduled.push(flow),
      missingLabel: (_component: unknown, what: string) => void this.missing.push(what),
    };
    const shared = shareContext({ clock, chance: seededChance(1), maxKeys: 1_000, observer });
    this.context = { ...shared, ...(typeof over === "function" ? over(shared) : over) };
    const state = newState(rule, this.context);
    this.state = state;
    this.queues = (state as unknown as { readonly queues: QueueSet }).queues;
    this.limiter = bindRule(rule, this.#slots, state, this.context);
    if (numbers !== undefined) this.limiter.decide(numbers);
  }

  /** Asks for a flow that waits for as long as `patienceMs`, by its deadline. */
  ask(
    labels: Readonly<Record<string, string>> = {},
    { patienceMs, ...flow }: Partial<Flow> & { readonly patienceMs?: number } = {},
    settled: (asked: Asked) => void = () => undefined,
  ): Asked {
    const now = this.clock.now();
    const deadline = patienceMs === undefined ? Number.POSITIVE_INFINITY : now + patienceMs + 10;
    const given = flowOf({ labels: claims(labels), deadline, ...flow });
    const answer = this.limiter.take(given, new Labels(this.#slots.schema, given.labels), now);
    const asked: Asked = {
      decision: undefined,
      leave: () => (answer instanceof Pending ? answer.cancel() : undefined),
    };
    const end = (decision: Decision) => {
      asked.decision = { ...decision, ...NO_DETAIL, ...decision.detail };
      settled(asked);
    };
    if (answer instanceof Pending) {
      answer.whenSettled(end, (thrown) => {
        throw thrown;
      });
    } else end(answer);
    return asked;
  }

  /** Gives back what a flow took. */
  undo({ decision }: Asked): void {
    const grant = decision && grantOf(decision);
    if (grant !== undefined) this.limiter.undo(grant);
  }

  end({ decision }: Asked): boolean {
    const grant = decision && grantOf(decision);
    return grant !== undefined && this.limiter.end?.(grant) === true;
  }

  /** Sizes of a scheduler's structures, all 0 when nobody waits. */
  get left(): Readonly<Record<string, number>> {
    const { capacity, timers } = this.context;
    return {
      queues: this.queues.size,
      flows: this.queues.flows + capacity.flows,
      bytes: capacity.bytes,
      timers: timers.size,
      alarms: this.clock.alarms,
    };
  }
}

export const NOTHING_LEFT = { queues: 0, flows: 0, bytes: 0, timers: 0, alarms: 0 };

/** True if a flow passed; undefined while it waits. */
export function passed({ decision }: Asked): boolean | undefined {
  return decision && !decision.dropped;
}
