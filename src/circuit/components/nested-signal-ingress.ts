// Copies what an in-port of a nested circuit reads in the outer circuit to a signal inside; invalid if the port is
// unconnected.

import { type ComponentFactory, read } from "../component.ts";

export const makeNestedSignalIngress: ComponentFactory<"nested_signal_ingress"> = (
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
