// Clamps a value to the in-ports `max` and `min` of controllers and integrators: to the upper limit first, then to
// the lower one, each only while it is valid.

import { read, type Wires } from "../component.ts";

export function limited(wires: Wires): (readings: Float64Array, value: number) => number {
  const [max, min] = [wires.in("max"), wires.in("min")];
  return (readings, value) => {
    const [upper, lower] = [read(readings, max), read(readings, min)];
    const below = Number.isNaN(upper) ? value : Math.min(value, upper);
    return Number.isNaN(lower) ? below : Math.max(below, lower);
  };
}
