// The largest input. One invalid input, or none at all, makes the output invalid. Counting starts at the most
// negative finite double, which is therefore the largest of nothing but -Inf.

import type { Make } from "../component.ts";
import { fold } from "./fold.ts";

export const makeMax: Make<"max"> = (_config, wires) =>
  fold(wires, wires.all("inputs").length === 0 ? Number.NaN : -Number.MAX_VALUE, Math.max);
