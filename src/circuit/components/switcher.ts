// `on_signal` while the switch is valid and not 0, else `off_signal`: an invalid switch is off.

import { type Make, read, truthy } from "../component.ts";

export const makeSwitcher: Make<"switcher"> = (_config, wires) => {
  const [on, off] = [wires.in("on_signal"), wires.in("off_signal")];
  const input = wires.in("switch");
  const output = wires.out("output");
  return {
    run: (readings) => {
      readings[output] = read(readings, truthy(read(readings, input)) ? on : off);
    },
  };
};
