// Reads rate limiters, quota schedulers and their numbers from wrapper messages.

import { type SettlementRule, UNSETTLED_MODES } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { commonParameters, limiterKind, numbersOf, oneOf } from "./wrapper.ts";

type Parameters = Decoded<"aperture.policy.language.v1.RateLimiter.Parameters">;

/** Both kinds have the same decisions. */
const DECISIONS = {
  decision: "aperture.policy.sync.v1.RateLimiterDecisionWrapper",
  numbers: ({
    rateLimiterDecision: decision,
  }: Decoded<"aperture.policy.sync.v1.RateLimiterDecisionWrapper">) =>
    decision && numbersOf(decision),
} as const;

export const rateLimiter = limiterKind("rate_limiter", {
  config: "aperture.policy.sync.v1.RateLimiterWrapper",
  rule({ rateLimiter: message }) {
    if (message === null || message.parameters === null) return null;
    const { selectors, parameters, requestParameters: refusal } = message;
    return {
      ...commonParameters({ selectors, refusal, parameters }, "rate_limiter"),
      tokensLabelKey: refusal?.tokensLabelKey ?? "",
      ...bucketRule(parameters),
    };
  },
  ...DECISIONS,
});

export const quotaScheduler = limiterKind("quota_scheduler", {
  config: "aperture.policy.sync.v1.QuotaSchedulerWrapper",
  rule({ quotaScheduler: message }) {
    if (message === null || message.rateLimiter === null) return null;
    const { selectors, rateLimiter: parameters, scheduler } = message;
    return {
      ...commonParameters({ selectors, refusal: scheduler, parameters }, "quota_scheduler"),
      ...bucketRule(parameters),
      scheduler: schedulerRule(scheduler),
    };
  },
  ...DECISIONS,
});

function bucketRule(parameters: Parameters) {
  const { lazySync, settlement } = parameters;
  return {
    // The deprecated key counts only where the current one is empty.
    limitByLabelKey: parameters.limitByLabelKey || parameters.labelKey,
    intervalMs: millisecondsOf(parameters.interval),
    continuousFill: parameters.continuousFill,
    delayInitialFill: parameters.delayInitialFill,
    maxIdleMs: millisecondsOf(parameters.maxIdleTime),
    lazySyncs: lazySync?.enabled ? lazySync.numSync : 0,
    ...(settlement === null ? {} : { settlement: settlementRule(settlement) }),
  };
}

function settlementRule({
  timeout,
  unsettled,
  refundStatuses,
}: NonNullable<Parameters["settlement"]>): SettlementRule {
  return {
    timeoutMs: millisecondsOf(timeout),
    unsettled: oneOf("settlement.unsettled", UNSETTLED_MODES, unsettled) ?? "keep",
    refundStatuses,
  };
}
