// The configuration that agents get of the resources beside the circuit: classifiers, flux meters and infra
// meters.

import type { AgentConfig } from "../../compiled.ts";
import type { Refuse } from "../../document/finding.ts";
import type { Path } from "../../document/tree.ts";
import {
  classifier,
  fluxMeter,
  type InfraMeter,
  infraMeter,
  type Resources,
} from "../../language/resources.ts";
import { groupsOf } from "../../language/selector.ts";
import { compactMessage } from "../../message.ts";

/** `path` is the place of the resources in the document. */
export function resourceConfigs(
  resources: Resources | undefined,
  path: Path,
  refuse: Refuse,
): readonly AgentConfig[] {
  if (resources === undefined) return [];
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

/** Infra meters by name, from both places of the document. A collector's agent group replaces that of its meters. */
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
