// Tells the scaler how many replicas to have, when that changes and at the first tick: the input without its
// fraction, at least 0. An invalid input takes the decision back: the scale is left alone.

import { type Make, read } from "../component.ts";

/** The wire's type is a 32-bit integer: more would turn into few. */
const MOST = 2 ** 31 - 1;

export const makePodScaleActuator: Make<"pod_scale_actuator"> = (config, wires, around) => {
  const input = wires.in("replicas");
  let sent: number | undefined;
  let first = true;
  return {
    run: (readings) => {
      const reading = read(readings, input);
      const desiredReplicas = Number.isNaN(reading)
        ? undefined
        : Math.trunc(Math.min(Math.max(0, reading), MOST));
      if (!first && desiredReplicas === sent) return;
      first = false;
      sent = desiredReplicas;
      around.decide({
        kind: "pod_scaler",
        componentId: config.component_id,
        agentGroups: config.agent_groups,
        desiredReplicas,
      });
    },
  };
};
