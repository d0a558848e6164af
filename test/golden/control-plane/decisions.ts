// Converts decisions to the form of the recordings: keys, and messages as JSON.

import { formatSeconds } from "#base/duration.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Json, JsonObject } from "./case.ts";
import { HASH } from "./plan.ts";

export interface Write {
  readonly tick: number;
  readonly key: string;
  /** Undefined removes the decision. */
  readonly value: JsonObject | undefined;
  /** Sluice's own part of the message, which no recording has. */
  readonly failure: string | undefined;
}

/** The keys of a decision, one for each agent group, with its message. */
export function writesOf(
  decision: CircuitDecision,
  plan: CircuitPlan,
  tick: number,
): readonly Write[] {
  const { componentId, agentGroups, kind } = decision;
  const about = { policy_name: plan.policyName, policy_hash: HASH, component_id: componentId };
  const message = messageOf(decision);
  const value = message === undefined ? undefined : { common_attributes: about, ...message };
  return agentGroups.map((group) => ({
    tick,
    key: `/decisions/${kind}/agent_group-${group}-policy-${plan.policyName}-component_id-${componentId}`,
    value,
    failure: "failure" in decision ? decision.failure : undefined,
  }));
}

function messageOf(decision: CircuitDecision): JsonObject | undefined {
  switch (decision.kind) {
    case "load_scheduler":
      return {
        load_decision: {
          tick_info: {
            timestamp: timestamp(decision.tick.timestamp),
            next_timestamp: null,
            tick: String(decision.tick.number),
            interval: formatSeconds(decision.tick.intervalMs),
          },
          load_multiplier: json(decision.loadMultiplier),
          pass_through: decision.passThrough,
          tokens_by_workload_index: Object.fromEntries(decision.tokensByWorkload),
          valid_until: timestamp(decision.validUntil),
        },
      };
    case "rate_limiter":
    case "quota_scheduler":
      return {
        rate_limiter_decision: {
          bucket_capacity: json(decision.bucketCapacity),
          fill_amount: json(decision.fillAmount),
          pass_through: decision.passThrough,
        },
      };
    case "concurrency_limiter":
    case "concurrency_scheduler":
      return {
        concurrency_limiter_decision: {
          max_concurrency: json(decision.maxConcurrency),
          pass_through: decision.passThrough,
        },
      };
    case "sampler":
      return {
        sampler_decision: {
          accept_percentage: json(decision.acceptPercentage),
          pass_through_label_values: decision.passThroughLabelValues,
        },
      };
    case "pod_scaler": {
      const { desiredReplicas } = decision;
      if (desiredReplicas === undefined) return undefined;
      return { scale_decision: { desired_replicas: desiredReplicas } };
    }
  }
}

function json(value: number): Json {
  return Number.isFinite(value) ? value + 0 : String(value);
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}
