// Load ramp: a signal generator for the percentage over time, and a sampler that follows it. The sampler is
// always in ramp mode and always accepts the ramp's pass-through label values (D-6).

import type { Sampler } from "../../language/flow.ts";
import type { LoadRamp } from "../../language/load.ts";
import { composite, type Draft, egress, ingress, leaf } from "../draft.ts";
import { sampler } from "./sampler.ts";

export function loadRamp(component: LoadRamp): Draft {
  const { steps, sampler: parameters } = component.parameters;
  const sampled: Sampler = {
    in_ports: {
      accept_percentage: { signal_name: "ACCEPT_PERCENTAGE", constant_signal: undefined },
    },
    parameters: { ...parameters, ramp_mode: true },
    pass_through_label_values: component.pass_through_label_values,
    pass_through_label_values_config_key: component.pass_through_label_values_config_key,
  };
  const profile = steps.map(({ target_accept_percentage, duration }) => ({
    target_output: { value: target_accept_percentage },
    duration,
  }));
  return composite("load_ramp", component, () => [
    leaf(
      "signal_generator",
      { parameters: { steps: profile } },
      { forward: "FORWARD", backward: "BACKWARD", reset: "RESET" },
      { output: "ACCEPT_PERCENTAGE", at_start: "START_SIGNAL", at_end: "END_SIGNAL" },
    ),
    sampler(sampled),
    ingress("forward", "FORWARD"),
    ingress("backward", "BACKWARD"),
    ingress("reset", "RESET"),
    egress("accept_percentage", "ACCEPT_PERCENTAGE"),
    egress("at_start", "START_SIGNAL"),
    egress("at_end", "END_SIGNAL"),
  ]);
}
