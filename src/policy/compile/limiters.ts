// Limiters and samplers of a circuit as rules, and the numbers that their constant in-ports decide.

import type { LimiterNumbers, LimiterRule } from "#flow/rules.ts";
import type { ConcurrencyLimiter, RateLimiter, Sampler } from "../language/flow.ts";
import type { InPort } from "../language/ports.ts";
import { selectorRules } from "./selectors.ts";

export interface LimiterContext {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  /** What the in-port of that name reads; NaN when invalid. */
  read(name: string, port: InPort | undefined): number;
  /** Overrides a sampler's values by its configuration key. */
  values(key: string): readonly string[] | undefined;
}

export interface CompiledLimiter {
  readonly rule: LimiterRule;
  readonly numbers: LimiterNumbers;
}

/** What a rule and its numbers have in common. */
function identity({ policyName, policyHash, componentId }: LimiterContext) {
  return { policyName, policyHash, componentId };
}

function common(context: LimiterContext, status: number | undefined) {
  return { ...identity(context), onFailure: "local", deniedStatus: status ?? 0 } as const;
}

/** Valid and not zero. */
const truthy = (value: number): boolean => !Number.isNaN(value) && value !== 0;

/** Zero where any number is invalid: the limiter then passes everything through. */
const orZero = (value: number, all: boolean): number => (all ? value : 0);

export function compileRateLimiter(limiter: RateLimiter, context: LimiterContext): CompiledLimiter {
  const { in_ports, parameters, selectors, request_parameters: request } = limiter;
  const { lazy_sync: lazy } = parameters;
  const kind = "rate_limiter";
  const capacity = context.read("bucket_capacity", in_ports.bucket_capacity);
  const fill = context.read("fill_amount", in_ports.fill_amount);
  const passThrough = truthy(context.read("pass_through", in_ports.pass_through));
  const valid = !Number.isNaN(capacity) && !Number.isNaN(fill);
  return {
    rule: {
      kind,
      ...common(context, request?.denied_response_status_code),
      selectors: selectorRules(selectors),
      limitByLabelKey: parameters.limit_by_label_key || parameters.label_key,
      tokensLabelKey: request?.tokens_label_key ?? "",
      intervalMs: parameters.interval,
      continuousFill: parameters.continuous_fill,
      delayInitialFill: parameters.delay_initial_fill,
      maxIdleMs: parameters.max_idle_time,
      lazySyncs: lazy?.enabled ? lazy.num_sync : 0,
    },
    numbers: {
      kind,
      ...identity(context),
      bucketCapacity: orZero(capacity, valid),
      fillAmount: orZero(fill, valid),
      passThrough: passThrough || !valid,
    },
  };
}

export function compileConcurrencyLimiter(
  limiter: ConcurrencyLimiter,
  context: LimiterContext,
): CompiledLimiter {
  const { in_ports, parameters, selectors, request_parameters: request } = limiter;
  const kind = "concurrency_limiter";
  const most = context.read("max_concurrency", in_ports.max_concurrency);
  const passThrough = truthy(context.read("pass_through", in_ports.pass_through));
  const valid = !Number.isNaN(most);
  return {
    rule: {
      kind,
      ...common(context, request?.denied_response_status_code),
      selectors: selectorRules(selectors),
      limitByLabelKey: parameters.limit_by_label_key,
      tokensLabelKey: request?.tokens_label_key ?? "",
      maxInflightMs: parameters.max_inflight_duration,
      maxIdleMs: parameters.max_idle_time,
    },
    numbers: {
      kind,
      ...identity(context),
      maxConcurrency: orZero(most, valid),
      passThrough: passThrough || !valid,
    },
  };
}

/** A sampler without a valid number accepts everything; in ramp mode nothing. */
export function compileSampler(sampler: Sampler, context: LimiterContext): CompiledLimiter {
  const { parameters } = sampler;
  const kind = "sampler";
  const read = context.read("accept_percentage", sampler.in_ports?.accept_percentage);
  const fallback = parameters.ramp_mode ? 0 : 100;
  const overridden = context.values(sampler.pass_through_label_values_config_key);
  return {
    rule: {
      kind,
      ...common(context, parameters.denied_response_status_code),
      selectors: selectorRules(parameters.selectors),
      sessionLabelKey: parameters.session_label_key,
      rampMode: parameters.ramp_mode,
    },
    numbers: {
      kind,
      ...identity(context),
      acceptPercentage: Number.isNaN(read) ? fallback : Math.min(100, Math.max(0, read)),
      passThroughLabelValues: overridden ?? sampler.pass_through_label_values,
    },
  };
}
