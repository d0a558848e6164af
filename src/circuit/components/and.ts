// Three-valued logical and: 0 is false, any other valid reading is true, an invalid one is unknown. The output is
// 0 if any input is false, otherwise invalid if any is unknown, otherwise 1. It is 1 without inputs.

import type { ComponentFactory } from "../component.ts";
import { fold } from "./fold.ts";

export const makeAnd: ComponentFactory<"and"> = (_config, wires) =>
  fold(wires, 1, (all, reading) => {
    if (all === 0 || reading === 0) return 0;
    return Number.isNaN(reading) ? Number.NaN : all;
  });
