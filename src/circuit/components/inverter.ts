// Logical not: 1 for 0, 0 for any other valid reading, invalid for invalid.

import { type ComponentFactory, read } from "../component.ts";

export const makeInverter: ComponentFactory<"inverter"> = (_config, wires) => {
  const input = wires.in("input");
  const output = wires.out("output");
  return {
    run: (readings) => {
      const reading = read(readings, input);
      readings[output] = Number.isNaN(reading) ? Number.NaN : Number(reading === 0);
    },
  };
};
