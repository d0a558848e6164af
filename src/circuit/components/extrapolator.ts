// The input; while it is invalid, the last valid input for at most max_extrapolation_interval.

import { type ComponentFactory, read } from "../component.ts";
import { ticksWithin } from "../ticks.ts";

export const makeExtrapolator: ComponentFactory<"extrapolator"> = (
  { parameters },
  wires,
  context,
) => {
  const input = wires.in("input");
  const output = wires.out("output");
  const maxAge = ticksWithin(parameters.max_extrapolation_interval, context.intervalMs);
  const state = context.state(() => ({ last: Number.NaN, age: 0 }));
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (Number.isNaN(reading)) {
        state.age += 1;
      } else {
        state.last = reading;
        state.age = 0;
      }
      readings[output] = state.age <= maxAge ? state.last : Number.NaN;
    },
  };
};
