// The configuration of agents as it lies in a store: one wrapper message for each part of a policy, one key
// for each group of agents that gets it.

import type { AgentConfig, ConfigKind } from "#policy/compiled.ts";
import { encodeJson } from "#wire/messages.ts";
import type { MessageName } from "#wire/shapes.ts";
import { classifierKey, componentKey, fluxMeterKey, infraMeterKey } from "./key.ts";

export interface PolicyIdentity {
  readonly name: string;
  readonly hash: string;
}

type Component = Exclude<ConfigKind, "classifiers" | "flux_meter" | "infra_meter">;

const WRAPPERS: Readonly<Record<Component, MessageName>> = {
  rate_limiter: "aperture.policy.sync.v1.RateLimiterWrapper",
  quota_scheduler: "aperture.policy.sync.v1.QuotaSchedulerWrapper",
  concurrency_limiter: "aperture.policy.sync.v1.ConcurrencyLimiterWrapper",
  concurrency_scheduler: "aperture.policy.sync.v1.ConcurrencySchedulerWrapper",
  load_scheduler: "aperture.policy.sync.v1.LoadSchedulerWrapper",
  sampler: "aperture.policy.sync.v1.SamplerWrapper",
  pod_scaler: "aperture.policy.sync.v1.PodScalerWrapper",
};

/** The last part of the key. */
export function configName(
  group: string,
  policyName: string,
  { kind, name }: Pick<AgentConfig, "kind" | "name">,
): string {
  if (kind === "classifiers") return classifierKey(group, policyName, name);
  if (kind === "flux_meter") return fluxMeterKey(group, name);
  if (kind === "infra_meter") return infraMeterKey(group, policyName, name);
  return componentKey(group, policyName, name);
}

export function configBytes(policy: PolicyIdentity, config: AgentConfig): Uint8Array {
  const { kind, name, message } = config;
  const policy_name = policy.name;
  const attributes = { policy_name, policy_hash: policy.hash };
  if (kind === "classifiers") {
    return encodeJson("aperture.policy.sync.v1.ClassifierWrapper", {
      classifier_attributes: { ...attributes, classifier_index: name },
      classifier: message,
    });
  }
  if (kind === "flux_meter") {
    return encodeJson("aperture.policy.sync.v1.FluxMeterWrapper", {
      flux_meter: message,
      flux_meter_name: name,
      policy_name,
    });
  }
  if (kind === "infra_meter") {
    return encodeJson("aperture.policy.sync.v1.InfraMeterWrapper", {
      infra_meter: message,
      infra_meter_name: name,
      policy_name,
    });
  }
  return encodeJson(WRAPPERS[kind], {
    common_attributes: { ...attributes, component_id: name },
    [kind]: message,
  });
}
