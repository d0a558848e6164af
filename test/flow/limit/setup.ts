// Rules, labels and a world for limiter tests: a clock that stands still, seeded dice, counted oddities.

import { seededChance } from "#base/chance.ts";
import { type Decision, type Flow, Pending } from "#flow/flow.ts";
import { type LabelSource, Labels, Slots } from "#flow/label.ts";
import {
  bindLimiter,
  type Limiter,
  type LimiterState,
  type LimitWorld,
  newLimiterState,
} from "#flow/limit.ts";
import type { Oddity } from "#flow/observe.ts";
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
  onFailure: "open",
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
  return { ...COMPONENT, kind: "sampler", sessionLabelKey: "", rampMode: false, ...over };
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

export interface TestWorld extends LimitWorld {
  readonly clock: FakeClock;
  readonly oddities: Oddity[];
}

export function testWorld(maxKeys = 1_000, seed = 1): TestWorld {
  const oddities: Oddity[] = [];
  return {
    clock: fakeClock(),
    chance: seededChance(seed),
    oddities,
    maxKeys,
    observer: {
      decided: () => undefined,
      ended: () => undefined,
      lookedUp: () => undefined,
      odd: (what) => oddities.push(what),
    },
  };
}

/** One bound limiter, asked by plain label records. */
export class Bench {
  readonly world: TestWorld;
  readonly state: LimiterState;
  readonly limiter: Limiter;
  readonly #slots = new Slots();

  constructor(
    rule: LimiterRule,
    numbers?: LimiterNumbers,
    world = testWorld(),
    state?: LimiterState,
  ) {
    this.world = world;
    this.state = state ?? newLimiterState(rule, world);
    this.limiter = bindLimiter(rule, this.#slots, this.state, world);
    if (numbers !== undefined) this.limiter.decide(numbers);
  }

  take(values: Readonly<Record<string, string>> = {}): Decision {
    const flow = flowOf(values);
    const answer = this.limiter.take(flow, new Labels(this.#slots.keys, flow.labels));
    if (answer instanceof Pending) throw new Error("a local limiter answers at once");
    return answer;
  }

  peek(values: Readonly<Record<string, string>> = {}): Decision {
    const flow = flowOf(values);
    return this.limiter.peek(flow, new Labels(this.#slots.keys, flow.labels));
  }

  undo(decision: Decision): void {
    if (decision.grant !== undefined) this.limiter.undo(decision.grant);
  }

  end(decision: Decision): boolean {
    return decision.grant !== undefined && this.limiter.end?.(decision.grant) === true;
  }
}

/** [dropped, remaining, current, consumed, wait in ms] of a decision, rounded to a millionth. */
export function told(decision: Decision): readonly [boolean, number, number, number, number] {
  const { dropped, remaining, current, consumed, waitMs } = decision;
  return [dropped, round(remaining), round(current), round(consumed), round(waitMs)];
}

function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
