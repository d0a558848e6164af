// 0 becomes 1, any other valid reading 0, invalid stays invalid.

import { type Make, read } from "../component.ts";

export const makeInverter: Make<"inverter"> = (_config, wires) => {
  const input = wires.in("input");
  const output = wires.out("output");
  return {
    run: (readings) => {
      const reading = read(readings, input);
      readings[output] = Number.isNaN(reading) ? Number.NaN : Number(reading === 0);
    },
  };
};
