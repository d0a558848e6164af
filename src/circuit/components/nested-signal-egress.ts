// Copies a signal of a nested circuit to the signal that its out-port writes in the outer circuit.

import { type ComponentFactory, read } from "../component.ts";

export const makeNestedSignalEgress: ComponentFactory<"nested_signal_egress"> = (
  _config,
  wires,
) => {
  const input = wires.in("signal");
  const output = wires.out("signal");
  return {
    run: (readings) => {
      readings[output] = read(readings, input);
    },
  };
};
