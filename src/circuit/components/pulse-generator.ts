// 1 for true_for, then 0 for false_for, and again; each rounded up to ticks and at least one.

import type { Make } from "../component.ts";

export const makePulseGenerator: Make<"pulse_generator"> = (config, wires, around) => {
  const output = wires.out("output");
  const high = Math.max(1, around.ticks(config.true_for));
  const low = Math.max(1, around.ticks(config.false_for));
  const state = around.keep(() => ({ at: 0 }));
  return {
    run: (readings) => {
      readings[output] = Number(state.at < high);
      state.at = (state.at + 1) % (high + low);
    },
  };
};
