// Rate limiters, and the schedulers that count in buckets as they do, with their numbers, read from wrapper messages.

import {
  type QuotaSchedulerRule,
  type RateLimiterRule,
  type SettlementRule,
  UNSETTLED_MODES,
} from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { decode, millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { selectorRule } from "./selector.ts";
import {
  attributesOf,
  type FollowedKind,
  failureOf,
  incomplete,
  nameIn,
  oneOf,
  ownParameters,
  type StoredNumbers,
} from "./wrapper.ts";

const CONFIG = "aperture.policy.sync.v1.RateLimiterWrapper";
const DECISION = "aperture.policy.sync.v1.RateLimiterDecisionWrapper";

const QUEUE_CONFIG = "aperture.policy.sync.v1.QuotaSchedulerWrapper";

type RateParameters = Decoded<"aperture.policy.language.v1.RateLimiter.Parameters">;

export const rateLimiter: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, rateLimiter: limiter } = decode(CONFIG, bytes);
    const parameters = limiter?.parameters ?? null;
    if (commonAttributes === null || limiter === null || parameters === null) {
      throw incomplete(CONFIG);
    }
    const rule: RateLimiterRule = {
      kind: "rate_limiter",
      ...attributesOf(commonAttributes),
      selectors: limiter.selectors.map(selectorRule),
      deniedStatus: limiter.requestParameters?.deniedResponseStatusCode ?? 0,
      tokensLabelKey: limiter.requestParameters?.tokensLabelKey ?? "",
      ...bucketRule(parameters, "rate_limiter"),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers: (bytes, group) => bucketNumbers(bytes, group, "rate_limiter"),
};

/** Its buckets and decisions are those of a rate limiter. */
export const quotaScheduler: FollowedKind = {
  readRule(bytes, group) {
    const { commonAttributes, quotaScheduler: message } = decode(QUEUE_CONFIG, bytes);
    const parameters = message?.rateLimiter ?? null;
    if (commonAttributes === null || message === null || parameters === null) {
      throw incomplete(QUEUE_CONFIG);
    }
    const rule: QuotaSchedulerRule = {
      kind: "quota_scheduler",
      ...attributesOf(commonAttributes),
      selectors: message.selectors.map(selectorRule),
      deniedStatus: message.scheduler?.deniedResponseStatusCode ?? 0,
      ...bucketRule(parameters, "quota_scheduler"),
      scheduler: schedulerRule(message.scheduler),
    };
    return { name: nameIn(group, rule), rule };
  },

  readNumbers: (bytes, group) => bucketNumbers(bytes, group, "quota_scheduler"),
};

function bucketRule(parameters: RateParameters, kind: "rate_limiter" | "quota_scheduler") {
  const { lazySync, settlement } = parameters;
  return {
    ...ownParameters(parameters, { kind, onMissingLabel: "pass" }),
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
}: NonNullable<RateParameters["settlement"]>): SettlementRule {
  return {
    timeoutMs: millisecondsOf(timeout),
    unsettled: oneOf("settlement.unsettled", UNSETTLED_MODES, unsettled) ?? "keep",
    refundStatuses,
  };
}

function bucketNumbers(
  bytes: Uint8Array,
  group: string,
  kind: "rate_limiter" | "quota_scheduler",
): StoredNumbers {
  const { commonAttributes, rateLimiterDecision } = decode(DECISION, bytes);
  if (commonAttributes === null || rateLimiterDecision === null) throw incomplete(DECISION);
  const attributes = attributesOf(commonAttributes);
  const { bucketCapacity, fillAmount, passThrough } = rateLimiterDecision;
  const numbers = { bucketCapacity, fillAmount, passThrough, ...failureOf(rateLimiterDecision) };
  return { name: nameIn(group, attributes), numbers: { kind, ...attributes, ...numbers } };
}
