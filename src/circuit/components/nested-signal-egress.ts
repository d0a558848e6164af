// The door out of a nested circuit: the inner signal under the name that the outer circuit gives the port.

import { type Make, read } from "../component.ts";

export const makeNestedSignalEgress: Make<"nested_signal_egress"> = (_config, wires) => {
  const input = wires.in("signal");
  const output = wires.out("signal");
  return {
    run: (readings) => {
      readings[output] = read(readings, input);
    },
  };
};
