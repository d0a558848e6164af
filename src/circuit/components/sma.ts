// Simple moving average: the mean of the last n valid inputs, n being the window in ticks (rounded up, at least
// one). Invalid until there are n, unless valid_during_warmup. An invalid input repeats the last output, and n
// invalid inputs in a row clear the window. The sum is recomputed each time, so that an infinity leaves no trace
// once it is out of the window.

import { type ComponentFactory, read } from "../component.ts";
import { emptyWindow, Window } from "./window.ts";

export const makeSma: ComponentFactory<"sma"> = ({ parameters }, wires, context) => {
  const input = wires.in("input");
  const output = wires.out("output");
  const size = Math.max(1, context.ticks(parameters.sma_window));
  const early = parameters.valid_during_warmup;
  const state = context.state(() => ({ ...emptyWindow(), gaps: 0, last: Number.NaN }));
  const window = new Window(size, state);
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (Number.isNaN(reading)) {
        state.gaps += 1;
        if (state.gaps >= size) {
          window.clear();
          state.last = Number.NaN;
        }
      } else {
        state.gaps = 0;
        window.push(reading);
        if (early || window.length === size) state.last = window.mean();
      }
      readings[output] = state.last;
    },
  };
};
