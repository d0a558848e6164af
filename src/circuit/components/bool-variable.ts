// 1 or 0: a boolean constant, or its override in the dynamic configuration under `config_key`.

import type { ComponentFactory } from "../component.ts";

export const makeBoolVariable: ComponentFactory<"bool_variable"> = (
  { constant_output, config_key },
  wires,
) => {
  const output = wires.out("output");
  let value = Number(constant_output);
  return {
    run: (readings) => {
      readings[output] = value;
    },
    configure: (overrides) => {
      value = Number(overrides.boolean(config_key) ?? constant_output);
    },
  };
};
