// Rules, labels and a context for limiter tests: a clock that only tests advance, seeded chance, recorded anomalies.

import { seededChance } from "#base/chance.ts";
import { type Decision, type Flow, grantOf, NO_DETAIL, Pending } from "#flow/flow.ts";
import { LabelSlots, type LabelSource, Labels } from "#flow/label.ts";
import type { Limiter } from "#flow/limit/limiter.ts";
import { type Anomaly, type MissingLabel, NO_OBSERVER, type Observer } from "#flow/observer.ts";
import {
  bindRule,
  type LimiterState,
  newState,
  type SharedContext,
  shareContext,
} from "#flow/plan/kinds.ts";
import type {
  ConcurrencyLimiterRule,
  LimiterNumbers,
  LimiterRule,
  RateLimiterRule,
  SamplerRule,
} from "#flow/rules.ts";
import { type FakeClock, fakeClock } from "../../kit/clock.ts";

const COMPONENT = {
  policyName: "policy",
  policyHash: "hash",
  componentId: "root.0",
  selectors: [],
  onFailure: "local",
  onMissingLabel: "pass",
  deniedStatus: 0,
} as const;

export function rateRule(over: Partial<RateLimiterRule> = {}): RateLimiterRule {
  return {
    ...COMPONENT,
    kind: "rate_limiter",
    limitByLabelKey: "",
    tokensLabelKey: "",
    intervalMs: 1_000,
    continuousFill: true,
    delayInitialFill: false,
    maxIdleMs: 7_200_000,
    lazySyncs: 0,
    ...over,
  };
}

export function concurrencyRule(
  over: Partial<ConcurrencyLimiterRule> = {},
): ConcurrencyLimiterRule {
  return {
    ...COMPONENT,
    kind: "concurrency_limiter",
    limitByLabelKey: "",
    tokensLabelKey: "",
    maxInflightMs: 60_000,
    maxIdleMs: 7_200_000,
    ...over,
  };
}

export function samplerRule(over: Partial<SamplerRule> = {}): SamplerRule {
  return {
    ...COMPONENT,
    onMissingLabel: "default_key",
    kind: "sampler",
    sessionLabelKey: "",
    rampMode: false,
    hash: "mixed",
    ...over,
  };
}

const NAMED = { policyName: "policy", policyHash: "hash", componentId: "root.0" } as const;

export function rate(bucketCapacity: number, fillAmount: number, passThrough = false) {
  return {
    ...NAMED,
    kind: "rate_limiter",
    bucketCapacity,
    fillAmount,
    passThrough,
  } as const satisfies LimiterNumbers;
}

export function concurrency(maxConcurrency: number, passThrough = false) {
  return {
    ...NAMED,
    kind: "concurrency_limiter",
    maxConcurrency,
    passThrough,
  } as const satisfies LimiterNumbers;
}

export function share(acceptPercentage: number, passThroughLabelValues: readonly string[] = []) {
  return {
    ...NAMED,
    kind: "sampler",
    acceptPercentage,
    passThroughLabelValues,
  } as const satisfies LimiterNumbers;
}

export function sourceOf(values: Readonly<Record<string, string>>): LabelSource {
  return {
    get: ({ name }) => values[name],
    origin: ({ name }) => (name in values ? "claim" : undefined),
    each: (visit) => {
      for (const [name, value] of Object.entries(values)) visit(name, value, true, "claim");
    },
  };
}

export function flowOf(values: Readonly<Record<string, string>> = {}): Flow {
  return {
    controlPoint: "ingress",
    type: "feature",
    services: [],
    labels: sourceOf(values),
    http: undefined,
    rampMode: false,
    expectEnd: false,
    deadline: Number.POSITIVE_INFINITY,
  };
}

export interface TestContext extends SharedContext {
  readonly clock: FakeClock;
  readonly anomalies: Anomaly[];
  /** Missing labels that were reported. */
  readonly missing: MissingLabel[];
}

export function testContext(maxKeys = 1_000, seed = 1): TestContext {
  const anomalies: Anomaly[] = [];
  const missing: MissingLabel[] = [];
  const clock = fakeClock();
  const observer: Observer = {
    ...NO_OBSERVER,
    anomaly: (what) => anomalies.push(what),
    missingLabel: (_component, what) => missing.push(what),
  };
  const shared = shareContext({ clock, chance: seededChance(seed), maxKeys, observer });
  return { ...shared, clock, anomalies, missing };
}

/** A decision with the fields of its detail beside its own. */
export type FlatDecision = Decision & typeof NO_DETAIL;

export function flat(decision: Decision): FlatDecision {
  return { ...decision, ...NO_DETAIL, ...decision.detail };
}

/** One bound limiter, asked with plain label records. */
export class Bench {
  readonly context: TestContext;
  readonly state: LimiterState;
  readonly limiter: Limiter;
  readonly #slots = new LabelSlots();

  constructor(
    rule: LimiterRule,
    numbers?: LimiterNumbers,
    context = testContext(),
    state?: LimiterState,
  ) {
    this.context = context;
    this.state = state ?? newState(rule, context);
    this.limiter = bindRule(rule, this.#slots, this.state, context);
    if (numbers !== undefined) this.limiter.decide(numbers);
  }

  take(values: Readonly<Record<string, string>> = {}): FlatDecision {
    const flow = flowOf(values);
    const labels = new Labels(this.#slots.schema, flow.labels);
    const answer = this.limiter.take(flow, labels, this.context.clock.now());
    if (answer instanceof Pending) throw new Error("a local limiter answers immediately");
    return flat(answer);
  }

  /** The decision that a flow would get: what it takes is given back. */
  peek(values: Readonly<Record<string, string>> = {}): FlatDecision {
    const decision = this.take(values);
    this.undo(decision);
    return decision;
  }

  undo(decision: Decision): void {
    const grant = grantOf(decision);
    if (grant !== undefined) this.limiter.undo(grant);
  }

  end(decision: Decision): boolean {
    const grant = grantOf(decision);
    return grant !== undefined && this.limiter.end?.(grant) === true;
  }
}

/** [dropped, remaining, current, consumed, wait in ms] of a decision, rounded to a millionth. */
export function counts(decision: FlatDecision): readonly [boolean, number, number, number, number] {
  const { dropped, remaining, current, consumed, waitMs } = decision;
  return [dropped, round(remaining), round(current), round(consumed), round(waitMs)];
}

function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
