// Alternates between 1 for true_for and 0 for false_for; each is rounded up to ticks, at least one.

import type { ComponentFactory } from "../component.ts";

export const makePulseGenerator: ComponentFactory<"pulse_generator"> = (config, wires, context) => {
  const output = wires.out("output");
  const high = Math.max(1, context.ticks(config.true_for));
  const low = Math.max(1, context.ticks(config.false_for));
  const state = context.state(() => ({ at: 0 }));
  return {
    run: (readings) => {
      readings[output] = Number(state.at < high);
      state.at = (state.at + 1) % (high + low);
    },
  };
};
