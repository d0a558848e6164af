// Simple moving average: the mean of the last n valid inputs, n being the window in ticks (rounded up, at least
// one). Invalid until there are n, unless valid_during_warmup. An invalid input repeats the last output, and n
// invalid inputs in a row clear the window. The sum is recomputed each time, so that an infinity leaves no trace
// once it is out of the window.

import { type ComponentFactory, read } from "../component.ts";
import { Window } from "./window.ts";

export const makeSma: ComponentFactory<"sma"> = ({ parameters }, wires, context) => {
  const input = wires.in("input");
  const output = wires.out("output");
  const size = Math.max(1, context.ticks(parameters.sma_window));
  const early = parameters.valid_during_warmup;
  const state = context.state(() => ({ window: new Window(size), gaps: 0, last: Number.NaN }));
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (Number.isNaN(reading)) {
        state.gaps += 1;
        if (state.gaps >= size) {
          state.window.clear();
          state.last = Number.NaN;
        }
      } else {
        state.gaps = 0;
        state.window.push(reading);
        if (early || state.window.length === size) state.last = state.window.mean();
      }
      readings[output] = state.last;
    },
  };
};
