// The table of component kinds: one row for each says at which stage it is asked, what identifies its state,
// and how state and component are made. Adding a kind is adding a row.

import { Fault } from "#base/fault.ts";
import type { Component } from "../flow.ts";
import type { LabelSlots } from "../label.ts";
import type { LimiterContext, StageMember } from "../plan/stage-member.ts";
import type {
  ConcurrencyLimiterRule,
  LimiterKind,
  LimiterRule,
  RateLimiterRule,
  SamplerRule,
} from "../rules.ts";
import { RAMP_STAGE, RATE_STAGE, SAMPLE_STAGE, STAGES, type Stage } from "../stages.ts";
import { ConcurrencyLimiter, ConcurrencyState } from "./concurrency-limiter.ts";
import { BucketTables } from "./counters/bucket-row.ts";
import { KeyHash } from "./counters/key-hash.ts";
import { RateLimiter, RateState } from "./rate-limiter.ts";
import { Sampler, SamplerState } from "./sampler.ts";

/** Buckets, slots or a share, and the numbers decided last. Carried from plan to plan by `stateIdentity`. */
export interface LimiterState {
  /** Called once, when no plan in force uses the state any more. Checks that began before may still ask it. */
  close(): void;
}

/** Dependencies that all limiters of one rulebook share. */
export interface SharedContext extends LimiterContext {
  /** Hashes keys for all limiters, so that a key which many of them are asked about is hashed once. */
  readonly keyHash: KeyHash;
  readonly bucketTables: BucketTables;
}

export interface KindRow<Rule, State extends LimiterState> {
  readonly stage: Stage;
  /** Names what one number of the state counts. Rules with equal meanings may share state; durations only scale it. */
  meaning(rule: Rule): readonly (string | boolean)[];
  /**
   * Fresh state without numbers: until they arrive, the failure mode of the rule answers. Limiters of one `group` are
   * always asked together and are keyed by the same label. `name` identifies the state within its agent group: it is
   * equal on all agents that have the same rules.
   */
  readonly State: new (
    context: SharedContext,
    rule: Rule,
    group: string,
    name: string,
  ) => State;
  /** A component for one plan, over state that may have served earlier plans. */
  bind(
    component: Component,
    rule: Rule,
    slots: LabelSlots,
    state: State,
    context: SharedContext,
  ): StageMember;
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

/** A row as the table holds it: it is only ever given rules of its own kind. */
type AnyRow = KindRow<never, LimiterState>;

/** The kinds that an agent knows, and the order in which their stages are passed. */
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
  },
};

/** Reported kind of a rule: a sampler in ramp mode has a stage of its own. */
function kindOf(rule: LimiterRule): LimiterKind {
  return rule.kind === "sampler" && rule.rampMode ? "ramp_sampler" : rule.kind;
}

export function shareContext(context: LimiterContext): SharedContext {
  const { chance, maxKeys } = context;
  return { ...context, keyHash: KeyHash.seeded(chance), bucketTables: new BucketTables(maxKeys) };
}

/**
 * Text that is equal for rules whose numbers mean the same: component id and policy hash are not in it, so
 * that neither an inserted component nor an edit elsewhere in the policy moves a bucket. Two rules of one
 * policy may share it; the rulebook pairs those with their states in order of component id.
 */
export function stateIdentity(rule: LimiterRule, { rows }: KindTable = LIMITER_KINDS): string {
  const kind = kindOf(rule);
  const meaning = rows[kind].meaning(rule as never);
  return canonicalJson([rule.policyName, kind, meaning, selectorsOf(rule)]);
}

/** Text that is equal for rules of one kind that apply to the same flows and read their key from the same label. */
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
): StageMember {
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

/** JSON with sorted member names: one text per value. Written by hand, because thousands of rules may arrive at once. */
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
