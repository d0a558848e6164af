// The decisions of circuits as wrapper messages.

import type { Decision, Tick } from "#circuit/component.ts";
import { durationOf, encode } from "#wire/messages.ts";
import type { PolicyIdentity } from "./config.ts";

/** Undefined: there is no decision any more. */
export function decisionBytes(
  { name: policyName, hash: policyHash }: PolicyIdentity,
  decision: Decision,
): Uint8Array | undefined {
  const commonAttributes = { policyName, policyHash, componentId: decision.componentId };
  switch (decision.kind) {
    case "load_scheduler":
      return encode("aperture.policy.sync.v1.LoadDecisionWrapper", {
        commonAttributes,
        loadDecision: {
          tickInfo: tickInfo(decision.tick),
          loadMultiplier: decision.loadMultiplier,
          passThrough: decision.passThrough,
          tokensByWorkloadIndex: Object.fromEntries(decision.tokensByWorkload),
          validUntil: timestampOf(decision.validUntil),
        },
      });
    case "rate_limiter":
    case "quota_scheduler":
      return encode("aperture.policy.sync.v1.RateLimiterDecisionWrapper", {
        commonAttributes,
        rateLimiterDecision: {
          bucketCapacity: decision.bucketCapacity,
          fillAmount: decision.fillAmount,
          passThrough: decision.passThrough,
        },
      });
    case "concurrency_limiter":
    case "concurrency_scheduler":
      return encode("aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper", {
        commonAttributes,
        concurrencyLimiterDecision: {
          maxConcurrency: decision.maxConcurrency,
          passThrough: decision.passThrough,
        },
      });
    case "sampler":
      return encode("aperture.policy.sync.v1.SamplerDecisionWrapper", {
        commonAttributes,
        samplerDecision: {
          acceptPercentage: decision.acceptPercentage,
          passThroughLabelValues: decision.passThroughLabelValues,
        },
      });
    case "pod_scaler": {
      const { desiredReplicas } = decision;
      if (desiredReplicas === undefined) return undefined;
      return encode("aperture.policy.sync.v1.ScaleDecisionWrapper", {
        commonAttributes,
        scaleDecision: { desiredReplicas },
      });
    }
  }
}

function tickInfo({ timestamp, number, intervalMs }: Tick) {
  return {
    timestamp: timestampOf(timestamp),
    tick: number,
    interval: durationOf(intervalMs),
  };
}

/** A point in time is counted as a duration is, from 1970 on. */
const timestampOf = durationOf;
