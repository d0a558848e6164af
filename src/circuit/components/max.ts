// The largest input; invalid if any input is invalid or there is none. The comparison starts at the most negative
// finite double, which is therefore the output when all inputs are -Inf.

import type { ComponentFactory } from "../component.ts";
import { fold } from "./fold.ts";

export const makeMax: ComponentFactory<"max"> = (_config, wires) =>
  fold(wires, wires.all("inputs").length === 0 ? Number.NaN : -Number.MAX_VALUE, Math.max);
