// The table of component kinds. A row says at which stage a kind is asked, what identifies its state, and how its state and
// its limiters are created. To add a kind, add a row.

import { Fault } from "#base/fault.ts";
import { BucketTables } from "../counters/local/bucket-row.ts";
import { KeyHash } from "../counters/local/keys/key-hash.ts";
import type { Component } from "../flow.ts";
import type { LabelSlots } from "../label.ts";
import { ConcurrencyLimiter, ConcurrencyState } from "../limit/concurrency-limiter.ts";
import type { Limiter, LimiterContext } from "../limit/limiter.ts";
import { RateLimiter, RateState } from "../limit/rate-limiter.ts";
import { Sampler, SamplerState } from "../limit/sampler.ts";
import type {
  ConcurrencyLimiterRule,
  ConcurrencySchedulerRule,
  LimiterKind,
  LimiterRule,
  LoadSchedulerRule,
  QuotaSchedulerRule,
  RateLimiterRule,
  SamplerRule,
} from "../rules.ts";
import { ConcurrencyScheduler, SlotGate } from "../schedule/concurrency-scheduler.ts";
import { FrontEnd } from "../schedule/front-end.ts";
import { LoadGate, LoadState } from "../schedule/load-scheduler.ts";
import { MAX_QUEUED, QueueCapacity } from "../schedule/queue/queue-capacity.ts";
import { type QueueContext, QueueSet } from "../schedule/queue/queue-set.ts";
import { Timers } from "../schedule/queue/timers.ts";
import { BucketGate, BucketScheduler } from "../schedule/quota-scheduler.ts";
import { Scheduler } from "../schedule/scheduler.ts";
import {
  RAMP_STAGE,
  RATE_STAGE,
  SAMPLE_STAGE,
  SLOT_QUEUE_STAGE,
  STAGES,
  type Stage,
  TOKEN_QUEUE_STAGE,
} from "../stages.ts";

/** Buckets, slots or a share, and the numbers decided last. Carried from plan to plan by `stateIdentity`. */
export interface LimiterState {
  /**
   * True if the numbers let a flow whose key has this value pass, whatever the failure mode is. Absent in kinds whose
   * numbers never do.
   */
  passes?(value: string | undefined): boolean;
  /** Called once, when the plan in force no longer uses the state. Checks that began before may still ask it. */
  close(): void;
}

/** Dependencies that all limiters of one rulebook share. */
export interface SharedContext extends LimiterContext, QueueContext {
  /** Hashes keys for all limiters, so that a key which many of them are asked about is hashed once. */
  readonly keyHash: KeyHash;
  readonly bucketTables: BucketTables;
}

export interface KindRow<Rule, State extends LimiterState> {
  readonly stage: Stage;
  /** What one number of the state counts. Rules with equal meanings may share state; durations only scale it. */
  meaning(rule: Rule): readonly (string | boolean)[];
  /**
   * State without numbers: until they arrive, the failure mode of the rule answers. Limiters of one `group` are always
   * asked together and are keyed by the same label. `name` identifies the state on all agents that have the same rules.
   */
  readonly State: new (
    context: SharedContext,
    rule: Rule,
    group: string,
    name: string,
  ) => State;
  /** A limiter for one plan, over state that may have served earlier plans. */
  bind(
    component: Component,
    rule: Rule,
    slots: LabelSlots,
    state: State,
    context: SharedContext,
  ): Limiter;
}

const SAMPLER: KindRow<SamplerRule, SamplerState> = {
  stage: SAMPLE_STAGE,
  meaning: ({ sessionLabelKey }) => [sessionLabelKey],
  State: SamplerState,
  bind: (component, rule, slots, state, context) =>
    new Sampler(component, rule, slots, state, context),
};

const RATE_LIMITER: KindRow<RateLimiterRule, RateState> = {
  stage: RATE_STAGE,
  meaning: (rule) => [rule.limitByLabelKey, rule.tokensLabelKey, rule.continuousFill],
  State: RateState,
  bind: (component, rule, slots, state, context) =>
    new RateLimiter(component, rule, slots, state, context),
};

const CONCURRENCY_LIMITER: KindRow<ConcurrencyLimiterRule, ConcurrencyState> = {
  stage: RATE_STAGE,
  meaning: (rule) => [rule.limitByLabelKey, rule.tokensLabelKey],
  State: ConcurrencyState,
  bind: (component, rule, slots, state, context) =>
    new ConcurrencyLimiter(component, rule, slots, state, context),
};

/** State of a scheduler: its counts, and its queues. */
abstract class Scheduled<Counts extends Partial<LimiterState>> implements LimiterState {
  readonly counts: Counts;
  readonly queues: QueueSet;

  constructor(context: QueueContext, counts: Counts) {
    this.counts = counts;
    this.queues = new QueueSet(context);
  }

  passes(value: string | undefined): boolean {
    return this.counts.passes?.(value) ?? false;
  }

  close(): void {
    this.queues.close();
    this.counts.close?.();
  }
}

class QuotaState extends Scheduled<RateState> {
  /** It has its own group, because it is asked later than the limiters of the same key, and only about some flows. */
  constructor(context: SharedContext, rule: QuotaSchedulerRule, group: string, name: string) {
    super(context, new RateState(context, rule, `queue ${group}`, name));
  }
}

const QUOTA_SCHEDULER: KindRow<QuotaSchedulerRule, QuotaState> = {
  stage: TOKEN_QUEUE_STAGE,
  meaning: ({ limitByLabelKey, scheduler, continuousFill }) => [
    limitByLabelKey,
    scheduler.tokensLabelKey,
    continuousFill,
  ],
  State: QuotaState,
  bind: (component, rule, slots, { counts, queues }, context) => {
    const { observer } = context;
    // The scheduler tells the limiter how many tokens a flow wants.
    const asked = { ...rule, tokensLabelKey: "" };
    const buckets = new RateLimiter(component, asked, slots, counts, context);
    const gate = new BucketGate(buckets, rule, slots, context);
    const frontEnd = new FrontEnd(rule.scheduler, slots, observer);
    return new BucketScheduler(component, frontEnd, gate, queues, observer);
  },
};

class ConcurrencyQueueState extends Scheduled<ConcurrencyState> {
  constructor(context: SharedContext, rule: ConcurrencySchedulerRule, group: string, name: string) {
    super(context, new ConcurrencyState(context, rule, group, name));
  }
}

const CONCURRENCY_SCHEDULER: KindRow<ConcurrencySchedulerRule, ConcurrencyQueueState> = {
  stage: SLOT_QUEUE_STAGE,
  meaning: ({ limitByLabelKey, scheduler }) => [limitByLabelKey, scheduler.tokensLabelKey],
  State: ConcurrencyQueueState,
  bind: (component, rule, slots, { counts, queues }, context) => {
    const { observer } = context;
    const asked = { ...rule, tokensLabelKey: "" };
    const limiter = new ConcurrencyLimiter(component, asked, slots, counts, context);
    const gate = new SlotGate(limiter, rule, slots, observer);
    const frontEnd = new FrontEnd(rule.scheduler, slots, observer);
    return new ConcurrencyScheduler(component, frontEnd, gate, queues, observer);
  },
};

class LoadQueueState extends Scheduled<LoadState & Partial<LimiterState>> {
  constructor(context: SharedContext) {
    super(context, new LoadState(context));
  }
}

const LOAD_SCHEDULER: KindRow<LoadSchedulerRule, LoadQueueState> = {
  stage: TOKEN_QUEUE_STAGE,
  meaning: ({ scheduler }) => [scheduler.tokensLabelKey],
  State: LoadQueueState,
  bind: (component, rule, slots, { counts, queues }, context) => {
    const gate = new LoadGate(component, counts, context);
    const frontEnd = new FrontEnd(rule.scheduler, slots, context.observer);
    return new Scheduler(component, frontEnd, gate, queues, context.observer);
  },
};

/** A row as the table holds it. It is only given rules of its own kind. */
type AnyRow = KindRow<never, LimiterState>;

/** The kinds that an agent knows, and the order of their stages. */
export interface KindTable {
  readonly stages: readonly Stage[];
  readonly rows: Readonly<Record<LimiterKind, AnyRow>>;
}

export const LIMITER_KINDS: KindTable = {
  stages: STAGES,
  rows: {
    ramp_sampler: { ...SAMPLER, stage: RAMP_STAGE },
    sampler: SAMPLER,
    rate_limiter: RATE_LIMITER,
    concurrency_limiter: CONCURRENCY_LIMITER,
    concurrency_scheduler: CONCURRENCY_SCHEDULER,
    quota_scheduler: QUOTA_SCHEDULER,
    load_scheduler: LOAD_SCHEDULER,
  },
};

/** The reported kind of a rule. A sampler in ramp mode has a stage of its own. */
function kindOf(rule: LimiterRule): LimiterKind {
  return rule.kind === "sampler" && rule.rampMode ? "ramp_sampler" : rule.kind;
}

export function shareContext(context: LimiterContext): SharedContext {
  const { chance, maxKeys, clock } = context;
  return {
    ...context,
    keyHash: KeyHash.seeded(chance),
    bucketTables: new BucketTables(maxKeys),
    timers: new Timers(clock),
    capacity: new QueueCapacity({ flows: 4 * MAX_QUEUED.flows, bytes: 4 * MAX_QUEUED.bytes }),
  };
}

/**
 * Text that is equal for rules whose numbers mean the same. It contains neither component id nor policy hash, so that an
 * inserted component or another edit of the policy moves no bucket. Two rules of one policy may have equal texts: the
 * rulebook pairs these with their states in order of component id.
 */
export function stateIdentity(rule: LimiterRule, { rows }: KindTable = LIMITER_KINDS): string {
  const kind = kindOf(rule);
  const meaning = rows[kind].meaning(rule as never);
  return canonicalJson([rule.policyName, kind, meaning, selectorsOf(rule)]);
}

/** Text that is equal for rules that apply to the same flows and read their key from the same label. */
function groupOf(rule: LimiterRule): string {
  const key = "limitByLabelKey" in rule ? rule.limitByLabelKey : "";
  return canonicalJson([key, selectorsOf(rule)]);
}

function selectorsOf({ selectors }: LimiterRule): readonly string[] {
  return selectors.map(canonicalJson).sort();
}

export function newState(
  rule: LimiterRule,
  context: SharedContext,
  kinds: KindTable = LIMITER_KINDS,
  name = stateIdentity(rule, kinds),
): LimiterState {
  const { State } = kinds.rows[kindOf(rule)];
  return new State(context, rule as never, groupOf(rule), name);
}

/** Binds a rule to its state for one plan. Throws INTERNAL when the state is that of another kind. */
export function bindRule(
  rule: LimiterRule,
  slots: LabelSlots,
  state: LimiterState,
  context: SharedContext,
  { rows }: KindTable = LIMITER_KINDS,
): Limiter {
  const kind = kindOf(rule);
  const row = rows[kind];
  const { name } = state.constructor;
  if (!(state instanceof row.State)) {
    throw new Fault("INTERNAL", `${name} was offered to a ${kind}`);
  }
  const { policyName, policyHash, componentId, deniedStatus, onFailure } = rule;
  const component = { policyName, policyHash, componentId, kind, deniedStatus, onFailure };
  return row.bind(Object.freeze(component), rule as never, slots, state, context);
}

/** JSON with sorted member names, so that equal values have equal texts. Thousands of rules may need it at once. */
function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  let text = "";
  if (Array.isArray(value)) {
    for (const item of value) text += `${text === "" ? "" : ","}${canonicalJson(item)}`;
    return `[${text}]`;
  }
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, member] of members) {
    if (member === undefined) continue;
    text += `${text === "" ? "" : ","}${JSON.stringify(name)}:${canonicalJson(member)}`;
  }
  return `{${text}}`;
}
