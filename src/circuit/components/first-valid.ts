// The first valid input in list order; invalid if there is none.

import { type ComponentFactory, read } from "../component.ts";

export const makeFirstValid: ComponentFactory<"first_valid"> = (_config, wires) => {
  const inputs = wires.all("inputs");
  const output = wires.out("output");
  return {
    run: (readings) => {
      for (const input of inputs) {
        const reading = read(readings, input);
        readings[output] = reading;
        if (!Number.isNaN(reading)) return;
      }
    },
  };
};
