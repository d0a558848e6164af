// A pod scaler: decides the number of replicas for the agents that scale the object, or none in a dry run, and
// reads the replicas that they report.

import { podScaler as message, type PodScaler } from "../../language/scale.ts";
import { agentConfig } from "../agents/config.ts";
import { composite, type Draft, dryRun, egress, ingress, switcher } from "../draft.ts";

export function podScaler(component: PodScaler): Draft {
  const object = component.kubernetes_object_selector;
  return composite("pod_scaler", component, (id) => {
    const agent_groups = [object.agent_group];
    const config = { component_id: id, agent_groups };
    return [
      dryRun(component, "DRY_RUN"),
      switcher({ by: "DRY_RUN", on: Number.NaN, off: "REPLICAS_INPUT" }, "REPLICAS"),
      () => ({
        is: "leaf",
        kind: "pod_scale_actuator",
        config,
        ins: { replicas: "REPLICAS" },
        outs: {},
        same: object,
        about: object,
        agentConfig: agentConfig("pod_scaler", id, agent_groups, message, component),
      }),
      () => ({
        is: "leaf",
        kind: "pod_scale_reporter",
        config,
        ins: {},
        outs: { actual_replicas: "ACTUAL_REPLICAS", configured_replicas: "CONFIGURED_REPLICAS" },
        same: object,
      }),
      ingress("replicas", "REPLICAS_INPUT"),
      egress("actual_replicas", "ACTUAL_REPLICAS"),
      egress("configured_replicas", "CONFIGURED_REPLICAS"),
    ];
  });
}
