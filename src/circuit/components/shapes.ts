// Components that write one reading, computed from the inputs of the same tick.

import { type RunningComponent, read, type Wires } from "../component.ts";

/** A function of one input. */
export function map(
  wires: Wires,
  operate: (reading: number) => number,
  from = "input",
  to = "output",
): RunningComponent {
  const input = wires.in(from);
  const output = wires.out(to);
  return {
    run: (readings) => {
      readings[output] = operate(read(readings, input));
    },
  };
}

/** Combines a list of inputs. `step` gets NaN for invalid ones, and may return NaN, which the next step gets. */
export function fold(
  wires: Wires,
  start: number,
  step: (folded: number, reading: number) => number,
): RunningComponent {
  const inputs = wires.all("inputs");
  const output = wires.out("output");
  return {
    run: (readings) => {
      let folded = start;
      for (const input of inputs) folded = step(folded, read(readings, input));
      readings[output] = folded;
    },
  };
}
