// Combines a list of inputs into one reading: shared by max, min, and, or.

import { type RunningComponent, read, type Wires } from "../component.ts";

/** `step` gets NaN for invalid inputs, and may return NaN, which it gets back in the next step. */
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
