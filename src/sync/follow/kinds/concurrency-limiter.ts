// Reads concurrency limiters, concurrency schedulers and their numbers from wrapper messages.

import { Fault } from "#base/fault.ts";
import type { AdaptiveBounds } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";
import { millisecondsOf } from "#wire/protobuf/messages.ts";
import { schedulerRule } from "./scheduler.ts";
import { commonParameters, limiterKind, numbersOf } from "./wrapper.ts";

type Parameters = Decoded<"aperture.policy.language.v1.ConcurrencyLimiter.Parameters">;

/** Both kinds have the same decisions. */
const DECISIONS = {
  decision: "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper",
  numbers: ({
    concurrencyLimiterDecision: decision,
  }: Decoded<"aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper">) =>
    decision && numbersOf(decision),
} as const;

export const concurrencyLimiter = limiterKind("concurrency_limiter", {
  config: "aperture.policy.sync.v1.ConcurrencyLimiterWrapper",
  rule({ concurrencyLimiter: message }) {
    if (message === null || message.parameters === null) return null;
    const { selectors, parameters, requestParameters: refusal } = message;
    return {
      ...commonParameters({ selectors, refusal, parameters }, "concurrency_limiter"),
      tokensLabelKey: refusal?.tokensLabelKey ?? "",
      ...slotRule(parameters),
    };
  },
  ...DECISIONS,
});

export const concurrencyScheduler = limiterKind("concurrency_scheduler", {
  config: "aperture.policy.sync.v1.ConcurrencySchedulerWrapper",
  rule({ concurrencyScheduler: message }) {
    if (message === null || message.concurrencyLimiter === null) return null;
    const { selectors, concurrencyLimiter: parameters, scheduler } = message;
    return {
      ...commonParameters({ selectors, refusal: scheduler, parameters }, "concurrency_scheduler"),
      ...slotRule(parameters),
      scheduler: schedulerRule(scheduler),
    };
  },
  ...DECISIONS,
});

function slotRule({ limitByLabelKey, maxInflightDuration, maxIdleTime, adaptive }: Parameters) {
  return {
    limitByLabelKey,
    maxInflightMs: millisecondsOf(maxInflightDuration),
    maxIdleMs: millisecondsOf(maxIdleTime),
    ...(adaptive === null ? {} : { adaptive: adaptiveBounds(adaptive) }),
  };
}

/** Start of an adaptive limit if the policy names none and the bounds allow it. */
const ADAPTIVE_START = 20;

/** @throws Fault INVALID_ARGUMENT for contradictory bounds */
function adaptiveBounds(stored: NonNullable<Parameters["adaptive"]>): AdaptiveBounds {
  const { min, max, tolerance } = stored;
  const start = stored.start ?? Math.min(max, Math.max(min, ADAPTIVE_START));
  if (!(min >= 1 && min <= start && start <= max && tolerance > 1)) {
    const wanted = "1 <= min <= start <= max and tolerance > 1";
    const got = `min ${min}, start ${start}, max ${max}, tolerance ${tolerance}`;
    throw new Fault("INVALID_ARGUMENT", `adaptive: wanted ${wanted}, got ${got}`);
  }
  return Object.freeze({ min, max, start, tolerance });
}
