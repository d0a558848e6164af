// Decides the number of replicas, when it changes and at the first tick: the input truncated to a whole number of at
// least 0. An invalid input withdraws the decision, and the scale stays as it is.

import { type ComponentFactory, read } from "../component.ts";

/** Replicas are sent as a 32-bit integer; larger numbers would overflow. */
const MAX_REPLICAS = 2 ** 31 - 1;

export const makePodScaleActuator: ComponentFactory<"pod_scale_actuator"> = (
  config,
  wires,
  context,
) => {
  const input = wires.in("replicas");
  let sent: number | undefined;
  let first = true;
  return {
    run: (readings) => {
      const reading = read(readings, input);
      const desiredReplicas = Number.isNaN(reading)
        ? undefined
        : Math.trunc(Math.min(Math.max(0, reading), MAX_REPLICAS));
      if (!first && desiredReplicas === sent) return;
      first = false;
      sent = desiredReplicas;
      context.decide({
        kind: "pod_scaler",
        componentId: config.component_id,
        agentGroups: config.agent_groups,
        desiredReplicas,
      });
    },
  };
};
