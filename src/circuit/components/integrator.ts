// A running sum that starts at initial_value and is output in every tick. When it is due (every tick, or once per
// evaluation_interval; never at the first tick), a true `reset` sets it to 0; otherwise a valid input is added
// and the sum is clamped to `max`, then `min`, where these are valid.

import { type ComponentFactory, read, truthy } from "../component.ts";
import { isDue } from "../ticks.ts";
import { limited } from "./limited.ts";

export const makeIntegrator: ComponentFactory<"integrator"> = (config, wires, context) => {
  const input = wires.in("input");
  const reset = wires.in("reset");
  const limit = limited(wires);
  const output = wires.out("output");
  const every = Math.max(1, context.ticks(config.evaluation_interval ?? 0));
  const state = context.state(() => ({ sum: config.initial_value }));
  return {
    run: (readings, { number }) => {
      if (isDue(number, every)) {
        const reading = read(readings, input);
        if (truthy(read(readings, reset))) state.sum = 0;
        else if (!Number.isNaN(reading)) state.sum = limit(readings, state.sum + reading);
      }
      readings[output] = state.sum;
    },
  };
};
