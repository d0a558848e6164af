// The first valid input in the order of the list; invalid when there is none.

import { type Make, read } from "../component.ts";

export const makeFirstValid: Make<"first_valid"> = (_config, wires) => {
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
