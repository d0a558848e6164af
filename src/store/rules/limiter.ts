// Limiters and their numbers, out of wrapper messages.

import type {
  ConcurrencyLimiterRule,
  LimiterNumbers,
  LimiterRule,
  RateLimiterRule,
  SamplerRule,
} from "#flow/rules.ts";
import { decode, millisecondsOf } from "#wire/messages.ts";
import { incomplete } from "./classifier.ts";
import { selectorRule } from "./selector.ts";

interface Named {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

function attributes({ policyName, policyHash, componentId }: Named): Named {
  return { policyName, policyHash, componentId };
}

export function limiterRule(kind: LimiterRule["kind"], bytes: Uint8Array): LimiterRule {
  switch (kind) {
    case "rate_limiter":
      return rateLimiterRule(bytes);
    case "concurrency_limiter":
      return concurrencyLimiterRule(bytes);
    case "sampler":
      return samplerRule(bytes);
  }
}

function rateLimiterRule(bytes: Uint8Array): RateLimiterRule {
  const name = "aperture.policy.sync.v1.RateLimiterWrapper";
  const { commonAttributes, rateLimiter } = decode(name, bytes);
  const parameters = rateLimiter?.parameters ?? null;
  if (commonAttributes === null || rateLimiter === null || parameters === null) {
    throw incomplete(name);
  }
  const { lazySync } = parameters;
  return {
    kind: "rate_limiter",
    ...attributes(commonAttributes),
    selectors: rateLimiter.selectors.map(selectorRule),
    onFailure: "local",
    deniedStatus: rateLimiter.requestParameters?.deniedResponseStatusCode ?? 0,
    tokensLabelKey: rateLimiter.requestParameters?.tokensLabelKey ?? "",
    // The deprecated key counts only where the current one is empty.
    limitByLabelKey: parameters.limitByLabelKey || parameters.labelKey,
    intervalMs: millisecondsOf(parameters.interval),
    continuousFill: parameters.continuousFill,
    delayInitialFill: parameters.delayInitialFill,
    maxIdleMs: millisecondsOf(parameters.maxIdleTime),
    lazySyncs: lazySync?.enabled ? lazySync.numSync : 0,
  };
}

function concurrencyLimiterRule(bytes: Uint8Array): ConcurrencyLimiterRule {
  const name = "aperture.policy.sync.v1.ConcurrencyLimiterWrapper";
  const { commonAttributes, concurrencyLimiter } = decode(name, bytes);
  const parameters = concurrencyLimiter?.parameters ?? null;
  if (commonAttributes === null || concurrencyLimiter === null || parameters === null) {
    throw incomplete(name);
  }
  return {
    kind: "concurrency_limiter",
    ...attributes(commonAttributes),
    selectors: concurrencyLimiter.selectors.map(selectorRule),
    onFailure: "local",
    deniedStatus: concurrencyLimiter.requestParameters?.deniedResponseStatusCode ?? 0,
    tokensLabelKey: concurrencyLimiter.requestParameters?.tokensLabelKey ?? "",
    limitByLabelKey: parameters.limitByLabelKey,
    maxInflightMs: millisecondsOf(parameters.maxInflightDuration),
    maxIdleMs: millisecondsOf(parameters.maxIdleTime),
  };
}

function samplerRule(bytes: Uint8Array): SamplerRule {
  const name = "aperture.policy.sync.v1.SamplerWrapper";
  const { commonAttributes, sampler } = decode(name, bytes);
  const parameters = sampler?.parameters ?? null;
  if (commonAttributes === null || parameters === null) throw incomplete(name);
  return {
    kind: "sampler",
    ...attributes(commonAttributes),
    selectors: parameters.selectors.map(selectorRule),
    onFailure: "local",
    deniedStatus: parameters.deniedResponseStatusCode,
    sessionLabelKey: parameters.sessionLabelKey,
    rampMode: parameters.rampMode,
  };
}

export function limiterNumbers(kind: LimiterRule["kind"], bytes: Uint8Array): LimiterNumbers {
  switch (kind) {
    case "rate_limiter": {
      const name = "aperture.policy.sync.v1.RateLimiterDecisionWrapper";
      const { commonAttributes, rateLimiterDecision } = decode(name, bytes);
      if (commonAttributes === null || rateLimiterDecision === null) throw incomplete(name);
      return { kind, ...attributes(commonAttributes), ...rateLimiterDecision };
    }
    case "concurrency_limiter": {
      const name = "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper";
      const { commonAttributes, concurrencyLimiterDecision } = decode(name, bytes);
      if (commonAttributes === null || concurrencyLimiterDecision === null) throw incomplete(name);
      return { kind, ...attributes(commonAttributes), ...concurrencyLimiterDecision };
    }
    case "sampler": {
      const name = "aperture.policy.sync.v1.SamplerDecisionWrapper";
      const { commonAttributes, samplerDecision } = decode(name, bytes);
      if (commonAttributes === null || samplerDecision === null) throw incomplete(name);
      return { kind, ...attributes(commonAttributes), ...samplerDecision };
    }
  }
}
