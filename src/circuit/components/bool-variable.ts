// 1 or 0: a constant, or what the dynamic configuration has under `config_key`.

import type { Make } from "../component.ts";

export const makeBoolVariable: Make<"bool_variable"> = ({ constant_output, config_key }, wires) => {
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
