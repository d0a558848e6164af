// Takes a valid input and shows it for hold_for (rounded up to ticks, at least one), then takes the next valid
// one; invalid while there is none. A true `reset` lets go at once.

import { type Make, read, truthy } from "../component.ts";

export const makeHolder: Make<"holder"> = (config, wires, around) => {
  const input = wires.in("input");
  const reset = wires.in("reset");
  const output = wires.out("output");
  const longest = Math.max(1, around.ticks(config.hold_for));
  const state = around.keep(() => ({ held: Number.NaN, left: 0 }));
  return {
    run: (readings) => {
      if (state.left === 0 || truthy(read(readings, reset))) {
        state.held = read(readings, input);
        state.left = Number.isNaN(state.held) ? 0 : longest;
      }
      if (state.left > 0) state.left -= 1;
      readings[output] = state.held;
    },
  };
};
