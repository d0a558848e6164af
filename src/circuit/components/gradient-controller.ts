// control_variable × (signal / setpoint)^slope. The factor is clamped to min_gradient and max_gradient, the output to
// `max`, then `min`, where these are valid. Invalid if one of the three inputs is invalid, the setpoint is 0, or
// the power is not a number. In manual mode the output is the control variable.

import { type ComponentFactory, read } from "../component.ts";
import { power } from "../functions/power.ts";
import { limited } from "./limited.ts";

export const makeGradientController: ComponentFactory<"gradient_controller"> = (config, wires) => {
  const { slope, min_gradient, max_gradient } = config.parameters;
  const [signal, setpoint] = [wires.in("signal"), wires.in("setpoint")];
  const variable = wires.in("control_variable");
  const limit = limited(wires);
  const output = wires.out("output");
  let manual = config.manual_mode;
  return {
    run: (readings) => {
      const value = read(readings, variable);
      if (manual) {
        readings[output] = value;
        return;
      }
      const goal = read(readings, setpoint);
      const ratio = read(readings, signal) / goal;
      if (goal === 0 || Number.isNaN(ratio) || Number.isNaN(value)) return;
      const gradient = power(ratio, slope);
      const factor = Math.max(Math.min(gradient, max_gradient), min_gradient);
      readings[output] = limit(readings, factor * value);
    },
    configure: (overrides) => {
      manual = overrides.boolean(config.manual_mode_config_key) ?? config.manual_mode;
    },
  };
};
