// Three-valued logical or: 0 is false, any other valid reading is true, an invalid one is unknown. The output is 1
// if any input is true, otherwise invalid if any is unknown, otherwise 0. It is 0 without inputs.

import { type ComponentFactory, truthy } from "../component.ts";
import { fold } from "./fold.ts";

export const makeOr: ComponentFactory<"or"> = (_config, wires) =>
  fold(wires, 0, (any, reading) => {
    if (any === 1 || truthy(reading)) return 1;
    return Number.isNaN(reading) ? Number.NaN : any;
  });
