// The resources of a policy as configuration for agents: classifiers, flux meters and infra meters.

import type { BucketsRule, ClassifierRule, FluxMeterRule } from "#flow/rules.ts";
import type { AgentConfig } from "../compiled.ts";
import type { Refuse } from "../finding.ts";
import {
  type Classifier,
  classifier,
  defaultBounds,
  extractorRule,
  type FluxMeter,
  fluxMeter,
  type InfraMeter,
  infraMeter,
  type Resources,
} from "../language/resources.ts";
import { groupsOf } from "../language/selector.ts";
import { compactMessage } from "../message.ts";
import type { Path } from "../tree.ts";
import { selectorRules } from "./selectors.ts";

interface PolicyIdentity {
  readonly policyName: string;
  readonly policyHash: string;
}

export function compileClassifier(
  { rules, selectors }: Classifier,
  index: number,
  { policyName, policyHash }: PolicyIdentity,
): ClassifierRule {
  return {
    kind: "classifier",
    policyName,
    policyHash,
    index,
    selectors: selectorRules(selectors),
    rules: [...rules].map(([label, { telemetry, extractor }]) => ({
      label,
      telemetry,
      extractor: extractorRule(extractor),
    })),
  };
}

export function compileFluxMeter(
  name: string,
  meter: FluxMeter,
  { policyName }: PolicyIdentity,
): FluxMeterRule {
  return {
    kind: "flux_meter",
    policyName,
    name,
    attributeKey: meter.attribute_key,
    buckets: bucketsRule(meter),
    selectors: selectorRules(meter.selectors),
  };
}

function bucketsRule(meter: FluxMeter): BucketsRule {
  const { linear_buckets, exponential_buckets, exponential_buckets_range } = meter;
  if (linear_buckets !== undefined) return { kind: "linear", ...linear_buckets };
  if (exponential_buckets !== undefined) return { kind: "exponential", ...exponential_buckets };
  if (exponential_buckets_range !== undefined) {
    return { kind: "exponential_range", ...exponential_buckets_range };
  }
  return { kind: "static", bounds: meter.static_buckets?.buckets ?? defaultBounds() };
}

/** Infra meters of both places by path; the same name twice is refused. */
export function infraMeters(resources: Resources, path: Path, refuse: Refuse): readonly Path[] {
  const first = new Map<string, Path>();
  const note = (name: string, at: Path): void => {
    if (first.has(name)) refuse(at, "each infra meter name once", `${name} again`);
    else first.set(name, at);
  };
  for (const name of resources.infra_meters.keys()) note(name, [...path, "infra_meters", name]);
  for (const [index, { infra_meters }] of resources.telemetry_collectors.entries()) {
    for (const name of infra_meters.keys()) {
      note(name, [...path, "telemetry_collectors", index, "infra_meters", name]);
    }
  }
  return [...first.values()];
}

/** `path` is where the resources stand. */
export function resourceConfigs(resources: Resources, path: Path, refuse: Refuse): AgentConfig[] {
  const { flow_control: flow } = resources;
  const classifiers = (flow?.classifiers ?? []).map((of, index): AgentConfig => {
    const agentGroups = groupsOf(of.selectors);
    const message = compactMessage(classifier, of);
    return { kind: "classifiers", name: String(index), agentGroups, message };
  });
  const fluxMeters = [...(flow?.flux_meters ?? [])].map(([name, of]): AgentConfig => {
    const agentGroups = groupsOf(of.selectors);
    return { kind: "flux_meter", name, agentGroups, message: compactMessage(fluxMeter, of) };
  });
  const meters = [...metersOf(resources, path, refuse)].map(([name, of]): AgentConfig => {
    const message = compactMessage(infraMeter, of);
    return { kind: "infra_meter", name, agentGroups: [of.agent_group], message };
  });
  return [...classifiers, ...fluxMeters, ...meters];
}

/** Infra meters of both places; a collector's agent group wins over that of its meters. */
function metersOf(
  { infra_meters, telemetry_collectors }: Resources,
  path: Path,
  refuse: Refuse,
): ReadonlyMap<string, InfraMeter> {
  const meters = new Map<string, InfraMeter>(infra_meters);
  for (const [index, { agent_group, infra_meters: own }] of telemetry_collectors.entries()) {
    for (const [name, meter] of own) {
      const at = [...path, "telemetry_collectors", index, "infra_meters", name];
      if (meters.has(name)) refuse(at, "each infra meter name once", `${name} again`);
      meters.set(name, { ...meter, agent_group });
    }
  }
  return meters;
}
