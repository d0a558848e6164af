// Decisions as people read them: the JSON of the wrapper messages that lie in the store, in its compact form
// (lowerCamelCase, zero values left out), as `/v1/decisions` gives it.

import { formatSeconds } from "#base/duration.ts";
import type { Decision } from "#circuit/component.ts";
import { timestamp } from "#host/status.ts";

type Json = Readonly<Record<string, unknown>>;

export function decisionJson(
  { name, hash }: { readonly name: string; readonly hash: string },
  decision: Decision,
): Json {
  const commonAttributes = {
    policyName: name,
    policyHash: hash,
    componentId: decision.componentId,
  };
  return { commonAttributes, ...bodyOf(decision) };
}

function bodyOf(decision: Decision): Json {
  switch (decision.kind) {
    case "load_scheduler":
      return { loadDecision: compact(loadDecision(decision)) };
    case "rate_limiter":
    case "quota_scheduler": {
      const { bucketCapacity, fillAmount, passThrough } = decision;
      return { rateLimiterDecision: compact({ bucketCapacity, fillAmount, passThrough }) };
    }
    case "concurrency_limiter":
    case "concurrency_scheduler": {
      const { maxConcurrency, passThrough } = decision;
      return { concurrencyLimiterDecision: compact({ maxConcurrency, passThrough }) };
    }
    case "sampler": {
      const { acceptPercentage, passThroughLabelValues } = decision;
      return { samplerDecision: compact({ acceptPercentage, passThroughLabelValues }) };
    }
    case "pod_scaler":
      return { scaleDecision: compact({ desiredReplicas: decision.desiredReplicas }) };
  }
}

function loadDecision(decision: Extract<Decision, { readonly kind: "load_scheduler" }>): Json {
  const { tick, loadMultiplier, passThrough, tokensByWorkload, validUntil } = decision;
  const tokens = [...tokensByWorkload].map(([workload, number]) => [workload, valued(number)]);
  return {
    tickInfo: {
      timestamp: timestamp(tick.timestamp),
      tick: String(tick.number),
      interval: formatSeconds(tick.intervalMs),
    },
    loadMultiplier,
    passThrough,
    ...(tokens.length === 0 ? {} : { tokensByWorkloadIndex: Object.fromEntries(tokens) }),
    validUntil: timestamp(validUntil),
  };
}

function compact(members: Json): Json {
  const kept = Object.entries(members).flatMap(([key, value]) => {
    const zero = value === 0 || value === false || value === undefined;
    if (zero || (Array.isArray(value) && value.length === 0)) return [];
    return [[key, typeof value === "number" ? valued(value) : value] as const];
  });
  return Object.fromEntries(kept);
}

/** JSON has no numbers beyond the finite. */
function valued(number: number): number | string {
  return Number.isFinite(number) ? number : String(number);
}
