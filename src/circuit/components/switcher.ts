// `on_signal` while the switch is valid and not 0, otherwise `off_signal`.

import { type ComponentFactory, read, truthy } from "../component.ts";

export const makeSwitcher: ComponentFactory<"switcher"> = (_config, wires) => {
  const [on, off] = [wires.in("on_signal"), wires.in("off_signal")];
  const input = wires.in("switch");
  const output = wires.out("output");
  return {
    run: (readings) => {
      readings[output] = read(readings, truthy(read(readings, input)) ? on : off);
    },
  };
};
