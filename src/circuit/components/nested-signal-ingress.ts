// The door into a nested circuit: what the port of the outer circuit reads, or invalid where it is not connected.

import { type Make, read } from "../component.ts";

export const makeNestedSignalIngress: Make<"nested_signal_ingress"> = (_config, wires) => {
  const input = wires.in("signal");
  const output = wires.out("signal");
  return {
    run: (readings) => {
      readings[output] = read(readings, input);
    },
  };
};
