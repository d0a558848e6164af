// The replicas in the last report of an agent; invalid while there is no report.

import type { ComponentFactory } from "../component.ts";

export const makePodScaleReporter: ComponentFactory<"pod_scale_reporter"> = (
  _config,
  wires,
  context,
) => {
  const [actual, configured] = [wires.out("actual_replicas"), wires.out("configured_replicas")];
  const state = context.state(() => ({ actual: Number.NaN, configured: Number.NaN }));
  return {
    run: (readings) => {
      readings[actual] = state.actual;
      readings[configured] = state.configured;
    },
    report: (replicas) => {
      state.actual = replicas?.actual ?? Number.NaN;
      state.configured = replicas?.configured ?? Number.NaN;
    },
  };
};
