// Three-valued disjunction: 0 is false, any other valid reading true, invalid unknown. One true input makes it
// 1; else one unknown makes it invalid; else 0, without inputs too.

import { type Make, truthy } from "../component.ts";
import { fold } from "./fold.ts";

export const makeOr: Make<"or"> = (_config, wires) =>
  fold(wires, 0, (any, reading) => {
    if (any === 1 || truthy(reading)) return 1;
    return Number.isNaN(reading) ? Number.NaN : any;
  });
