// The replicas in the last report of an agent; invalid while there is no report.

import type { ComponentFactory, Replicas } from "../component.ts";

export const makePodScaleReporter: ComponentFactory<"pod_scale_reporter"> = (
  _config,
  wires,
  context,
) => {
  const [actual, configured] = [wires.out("actual_replicas"), wires.out("configured_replicas")];
  const state = context.state((): { replicas: Replicas | undefined } => ({ replicas: undefined }));
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
