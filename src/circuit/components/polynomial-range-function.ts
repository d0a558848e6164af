// y0 + t^degree·(y1 - y0), with t the way from the start's input (0) to the end's (1). Before and behind these:
// the nearer output with clamp_to_datapoint, pre_start and post_end with clamp_to_custom_values, else the
// curve goes on, invalid where it has no such power. Equal inputs make a step.

import { type Make, read } from "../component.ts";
import { power } from "../functions/power.ts";

export const makePolynomialRangeFunction: Make<"polynomial_range_function"> = (
  { parameters },
  wires,
) => {
  const { start, end, degree, clamp_to_custom_values: custom } = parameters;
  const clamp = parameters.clamp_to_datapoint === true;
  const input = wires.in("input");
  const output = wires.out("output");
  const before = clamp ? start.output : custom?.pre_start;
  const behind = clamp ? end.output : custom?.post_end;
  return {
    run: (readings) => {
      const x = read(readings, input);
      if (Number.isNaN(x)) return;
      const way =
        start.input === end.input
          ? Number(x > start.input)
          : (x - start.input) / (end.input - start.input);
      if (way < 0 && before !== undefined) readings[output] = before;
      else if (way > 1 && behind !== undefined) readings[output] = behind;
      else readings[output] = start.output + power(way, degree) * (end.output - start.output);
    },
  };
};
