// y0 + t^degree·(y1 - y0), where t is the relative position of the input between start (0) and end (1). Outside that
// range: the nearer output with clamp_to_datapoint, pre_start and post_end with clamp_to_custom_values,
// otherwise the continued curve, which is invalid where the power is not a number. Equal inputs of start and
// end make a step.

import { type ComponentFactory, read } from "../component.ts";
import { power } from "../functions/power.ts";

export const makePolynomialRangeFunction: ComponentFactory<"polynomial_range_function"> = (
  { parameters },
  wires,
) => {
  const { start, end, degree, clamp_to_custom_values: custom } = parameters;
  const clamp = parameters.clamp_to_datapoint === true;
  const input = wires.in("input");
  const output = wires.out("output");
  const before = clamp ? start.output : custom?.pre_start;
  const after = clamp ? end.output : custom?.post_end;
  return {
    run: (readings) => {
      const x = read(readings, input);
      if (Number.isNaN(x)) return;
      const t =
        start.input === end.input
          ? Number(x > start.input)
          : (x - start.input) / (end.input - start.input);
      if (t < 0 && before !== undefined) readings[output] = before;
      else if (t > 1 && after !== undefined) readings[output] = after;
      else readings[output] = start.output + power(t, degree) * (end.output - start.output);
    },
  };
};
