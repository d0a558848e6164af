// Decides what percentage samplers accept, when it or the pass-through label values change, and at the first tick.
// While the input is invalid it is 100, or 0 in ramp mode. The label values are the policy's, or their
// override in the dynamic configuration under pass_through_label_values_config_key. A sampler without any
// in-ports, not even an unconnected one, never decides.

import { type ComponentFactory, read } from "../component.ts";

export const makeSampler: ComponentFactory<"sampler"> = (config, wires, context) => {
  const input = wires.in("accept_percentage");
  const hasNoPort = wires.all("accept_percentage").length === 0;
  const fallback = config.ramp_mode ? 0 : 100;
  let passing = config.pass_through_label_values;
  let sent = Number.NaN;
  return {
    run: (readings) => {
      const reading = read(readings, input);
      const acceptPercentage = Number.isNaN(reading) ? fallback : reading;
      if (hasNoPort || acceptPercentage === sent) return;
      sent = acceptPercentage;
      context.decide({
        kind: "sampler",
        componentId: config.component_id,
        agentGroups: config.agent_groups,
        acceptPercentage,
        passThroughLabelValues: passing,
      });
    },
    configure: (overrides) => {
      const { pass_through_label_values_config_key: key, pass_through_label_values } = config;
      const wanted = overrides.texts(key) ?? pass_through_label_values;
      if (equal(wanted, passing)) return;
      passing = wanted;
      sent = Number.NaN;
    },
  };
};

function equal(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((text, at) => text === right[at]);
}
