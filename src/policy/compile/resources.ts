// The resources of a policy as configuration for agents: classifiers, flux meters and infra meters.

import type { AgentConfig } from "../compiled.ts";
import type { Refuse } from "../finding.ts";
import {
  classifier,
  fluxMeter,
  type InfraMeter,
  infraMeter,
  type Resources,
} from "../language/resources.ts";
import { groupsOf } from "../language/selector.ts";
import { compactMessage } from "../message.ts";
import type { Path } from "../tree.ts";

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
