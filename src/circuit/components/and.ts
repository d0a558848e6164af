// Three-valued conjunction: 0 is false, any other valid reading true, invalid unknown. One false input makes
// it 0; else one unknown makes it invalid; else 1, without inputs too.

import type { Make } from "../component.ts";
import { fold } from "./fold.ts";

export const makeAnd: Make<"and"> = (_config, wires) =>
  fold(wires, 1, (all, reading) => {
    if (all === 0 || reading === 0) return 0;
    return Number.isNaN(reading) ? Number.NaN : all;
  });
