// A sampler: no composite, but a leaf that agents carry out, in a document or in a load ramp.

import type { Sampler } from "../../language/flow.ts";
import { type Actuating, agentGroupsOf } from "../configs.ts";
import { type Draft, sourceOf } from "../draft.ts";

export function sampler(component: Sampler): Draft {
  const ins = component.in_ports;
  return (id) => {
    const actuates: Actuating = { kind: "sampler", componentId: id, component };
    const { selectors } = component.parameters;
    const config = {
      agent_groups: agentGroupsOf(actuates),
      ramp_mode: component.parameters.ramp_mode,
      pass_through_label_values: component.pass_through_label_values,
      pass_through_label_values_config_key: component.pass_through_label_values_config_key,
    };
    return {
      is: "leaf",
      kind: "sampler",
      config: { component_id: id, ...config },
      // Without any in-ports it is never told a number; with an unconnected one, an invalid number.
      ins: ins ? { accept_percentage: sourceOf(ins.accept_percentage) } : {},
      outs: {},
      same: { ...config, selectors },
      about: selectors,
      actuates,
    };
  };
}
