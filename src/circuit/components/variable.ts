// A constant, or its override in the dynamic configuration under `config_key`.

import type { ComponentFactory } from "../component.ts";
import { constantOf } from "../plan.ts";

export const makeVariable: ComponentFactory<"variable"> = (
  { constant_output, config_key },
  wires,
) => {
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
