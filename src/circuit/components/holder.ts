// Captures a valid input and outputs it for hold_for (rounded up to ticks, at least one), then captures the next
// valid one; invalid while it holds nothing. A true `reset` releases the value at once.

import { type ComponentFactory, read, truthy } from "../component.ts";

export const makeHolder: ComponentFactory<"holder"> = (config, wires, context) => {
  const input = wires.in("input");
  const reset = wires.in("reset");
  const output = wires.out("output");
  const holdTicks = Math.max(1, context.ticks(config.hold_for));
  const state = context.state(() => ({ held: Number.NaN, left: 0 }));
  return {
    run: (readings) => {
      if (state.left === 0 || truthy(read(readings, reset))) {
        state.held = read(readings, input);
        state.left = Number.isNaN(state.held) ? 0 : holdTicks;
      }
      if (state.left > 0) state.left -= 1;
      readings[output] = state.held;
    },
  };
};
