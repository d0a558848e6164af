// The replicas that an agent reported last; invalid while no report stands.

import type { Make, Replicas } from "../component.ts";

export const makePodScaleReporter: Make<"pod_scale_reporter"> = (_config, wires, around) => {
  const [actual, configured] = [wires.out("actual_replicas"), wires.out("configured_replicas")];
  const state = around.keep((): { replicas: Replicas | undefined } => ({ replicas: undefined }));
  return {
    run: (readings) => {
      if (state.replicas === undefined) return;
      readings[actual] = state.replicas.actual;
      readings[configured] = state.replicas.configured;
    },
    report: (replicas) => {
      state.replicas = replicas;
    },
  };
};
