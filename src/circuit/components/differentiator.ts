// Rate of change of the input per tick: the difference between the newest and the oldest valid reading of the
// window (rounded up to ticks), divided by the ticks between them. Invalid while there are fewer than two.

import { type ComponentFactory, read } from "../component.ts";
import { emptyWindow, Window } from "./window.ts";

export const makeDifferentiator: ComponentFactory<"differentiator"> = (config, wires, context) => {
  const input = wires.in("input");
  const output = wires.out("output");
  // A difference needs two readings.
  const size = Math.max(2, context.ticks(config.window));
  const window = new Window(size, context.state(emptyWindow));
  return {
    run: (readings) => {
      window.push(read(readings, input));
      let oldest = 0;
      while (oldest < window.length && Number.isNaN(window.at(oldest))) oldest += 1;
      let newest = window.length - 1;
      while (newest > oldest && Number.isNaN(window.at(newest))) newest -= 1;
      if (newest <= oldest) return;
      readings[output] = (window.at(newest) - window.at(oldest)) / (newest - oldest);
    },
  };
};
