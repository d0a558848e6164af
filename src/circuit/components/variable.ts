// A constant, or what the dynamic configuration has under `config_key`.

import type { Make } from "../component.ts";
import { constantOf } from "../plan.ts";

export const makeVariable: Make<"variable"> = ({ constant_output, config_key }, wires) => {
  const output = wires.out("output");
  const own = constantOf(constant_output);
  let value = own;
  return {
    run: (readings) => {
      readings[output] = value;
    },
    configure: (overrides) => {
      value = overrides.number(config_key) ?? own;
    },
  };
};
