// The input, or while it is invalid the last valid one for at most max_extrapolation_interval.

import { type Make, read } from "../component.ts";
import { ticksWithin } from "../ticks.ts";

export const makeExtrapolator: Make<"extrapolator"> = ({ parameters }, wires, around) => {
  const input = wires.in("input");
  const output = wires.out("output");
  const longest = ticksWithin(parameters.max_extrapolation_interval, around.intervalMs);
  const state = around.keep(() => ({ last: Number.NaN, age: 0 }));
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (Number.isNaN(reading)) {
        state.age += 1;
      } else {
        state.last = reading;
        state.age = 0;
      }
      readings[output] = state.age <= longest ? state.last : Number.NaN;
    },
  };
};
