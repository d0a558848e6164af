// A sampler, in a document or inside a load ramp. It is no composite: a single leaf whose decisions agents act
// on.

import { sampler as message, type Sampler } from "../../language/flow.ts";
import { groupsOf } from "../../language/selector.ts";
import { agentConfig } from "../agents/config.ts";
import { type Draft, sourceOf } from "../draft.ts";
import { onFailureOf } from "./limiter.ts";

export function sampler(component: Sampler): Draft {
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
