// Decides what percentage samplers accept, when it or the pass-through label values change, and at the first tick.
// While the input is invalid, `on_failure` decides; by default it is 100, or 0 in ramp mode. The label values are the
// policy's, or their override in the dynamic configuration under pass_through_label_values_config_key. A sampler
// without any in-ports, not even an unconnected one, decides only when it has such values (control-plane D-6).

import { type StandIn, standInOf } from "#base/failure-mode.ts";
import { type ComponentFactory, read } from "../component.ts";
import { samplerDefault } from "../decision.ts";

export const makeSampler: ComponentFactory<"sampler"> = (config, wires, context) => {
  const input = wires.in("accept_percentage");
  const hasNoPort = wires.all("accept_percentage").length === 0;
  const byDefault = samplerDefault(config);
  const state = context.state(() => ({ valid: Number.NaN }));
  let passing = config.pass_through_label_values;
  let sent = Number.NaN;
  let sentFailure: StandIn | undefined;
  let decides = !hasNoPort;
  return {
    run: (readings) => {
      const reading = read(readings, input);
      let failure: StandIn | undefined;
      if (Number.isNaN(reading)) {
        failure = standInOf(config.on_failure, byDefault, !Number.isNaN(state.valid));
      } else state.valid = reading;
      const acceptPercentage = failure === "open" ? 100 : failure === "closed" ? 0 : state.valid;
      if (acceptPercentage === sent && failure === sentFailure) return;
      decides ||= passing.length > 0;
      if (!decides) return;
      [sent, sentFailure] = [acceptPercentage, failure];
      context.decide({
        kind: "sampler",
        componentId: config.component_id,
        agentGroups: config.agent_groups,
        acceptPercentage,
        passThroughLabelValues: passing,
        ...(failure === undefined ? {} : { failure }),
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
