// Samplers, and load ramps, which drive a sampler by a schedule.

import { sampler as message, type Sampler } from "../../language/flow.ts";
import type { LoadRamp } from "../../language/load.ts";
import { groupsOf } from "../../language/selector.ts";
import { agentConfig } from "../agents/config.ts";
import { composite, type Draft, egress, ingress, leaf, sourceOf } from "../draft.ts";
import { onFailureOf } from "./limiters.ts";

export const SAMPLERS = { sampler, load_ramp: loadRamp } as const;

/** A single leaf whose decisions agents act on: not a composite. */
function sampler(component: Sampler): Draft {
  const ins = component.in_ports;
  return (id) => {
    const { selectors, ramp_mode, on_failure } = component.parameters;
    const agent_groups = groupsOf(selectors);
    const config = {
      agent_groups,
      ramp_mode,
      pass_through_label_values: component.pass_through_label_values,
      pass_through_label_values_config_key: component.pass_through_label_values_config_key,
    };
    return {
      is: "leaf",
      kind: "sampler",
      config: { component_id: id, ...config, ...onFailureOf(on_failure) },
      // A sampler without any in-ports decides only about label values; one with an unconnected port reads invalid.
      ins: ins ? { accept_percentage: sourceOf(ins.accept_percentage) } : {},
      outs: {},
      same: { ...config, selectors },
      about: selectors,
      agentConfig: agentConfig("sampler", id, agent_groups, message, component),
    };
  };
}

/**
 * A signal generator for the percentage over time, and a sampler that follows it, always in ramp mode. Its pass-through
 * label values always pass (D-6).
 */
function loadRamp(component: LoadRamp): Draft {
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
