// The smallest input. One invalid input, or none at all, makes the output invalid. Counting starts at the
// largest finite double, which is therefore the smallest of nothing but +Inf.

import type { Make } from "../component.ts";
import { fold } from "./fold.ts";

export const makeMin: Make<"min"> = (_config, wires) =>
  fold(wires, wires.all("inputs").length === 0 ? Number.NaN : Number.MAX_VALUE, Math.min);
