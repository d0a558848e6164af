// What max, min, and, or share: many inputs become one reading.

import { type Running, read, type Wires } from "../component.ts";

/** `step` gets NaN for invalid inputs and may return it: then nothing but another step changes that. */
export function fold(
  wires: Wires,
  start: number,
  step: (folded: number, reading: number) => number,
): Running {
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
