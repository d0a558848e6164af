// Tells samplers what percentage to accept, when it or the label values that always pass change, and at the first
// tick. An invalid input accepts all, or nothing in ramp mode. The label values are the policy's, or what the
// dynamic configuration has under pass_through_label_values_config_key. A sampler that has no in-ports at all,
// not even an unconnected one, says nothing.

import { type Make, read } from "../component.ts";

export const makeSampler: Make<"sampler"> = (config, wires, around) => {
  const input = wires.in("accept_percentage");
  const mute = wires.all("accept_percentage").length === 0;
  const fallback = config.ramp_mode ? 0 : 100;
  let passing = config.pass_through_label_values;
  let sent = Number.NaN;
  return {
    run: (readings) => {
      const reading = read(readings, input);
      const acceptPercentage = Number.isNaN(reading) ? fallback : reading;
      if (mute || acceptPercentage === sent) return;
      sent = acceptPercentage;
      around.decide({
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
