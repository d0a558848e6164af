// A pod scaler: the wanted replicas, held back in a dry run, for the agents beside the object; and the
// replicas that they report.

import type { PodScaler } from "../../language/scale.ts";
import { type Actuating, agentGroupsOf } from "../configs.ts";
import { composite, type Draft, dryRun, egress, ingress, switcher } from "../draft.ts";

export function podScaler(component: PodScaler): Draft {
  const object = component.kubernetes_object_selector;
  return composite("pod_scaler", component, (id) => {
    const actuates: Actuating = { kind: "pod_scaler", componentId: id, component };
    const config = { component_id: id, agent_groups: agentGroupsOf(actuates) };
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
        actuates,
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
