// The mean of the last valid inputs, as many as the window has ticks (rounded up, at least one); invalid until
// there are so many, unless valid_during_warmup. A gap repeats the last output; as many gaps in a row as the
// window is long clear it. The mean is summed up anew each time: an infinity leaves no trace once it is out.

import { type Make, read } from "../component.ts";
import { Window } from "./window.ts";

export const makeSma: Make<"sma"> = ({ parameters }, wires, around) => {
  const input = wires.in("input");
  const output = wires.out("output");
  const size = Math.max(1, around.ticks(parameters.sma_window));
  const early = parameters.valid_during_warmup;
  const state = around.keep(() => ({ window: new Window(size), gaps: 0, last: Number.NaN }));
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
