// A running sum that starts at initial_value and is always shown. At its turns (every tick, or once in every
// evaluation_interval; never at the first tick) a true `reset` makes it 0, else a valid input is added and the
// sum kept at most `max`, then at least `min`, where these are valid.

import { type Make, read, truthy } from "../component.ts";
import { isTurn } from "../ticks.ts";
import { limited } from "./limited.ts";

export const makeIntegrator: Make<"integrator"> = (config, wires, around) => {
  const input = wires.in("input");
  const reset = wires.in("reset");
  const limit = limited(wires);
  const output = wires.out("output");
  const every = Math.max(1, around.ticks(config.evaluation_interval ?? 0));
  const state = around.keep(() => ({ sum: config.initial_value }));
  return {
    run: (readings, { number }) => {
      if (isTurn(number, every)) {
        const reading = read(readings, input);
        if (truthy(read(readings, reset))) state.sum = 0;
        else if (!Number.isNaN(reading)) state.sum = limit(readings, state.sum + reading);
      }
      readings[output] = state.sum;
    },
  };
};
