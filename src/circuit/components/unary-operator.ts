// A function of one input. The output is invalid if the input is invalid or outside the function's domain. `round`
// rounds halves away from zero; `lgamma` is the logarithm of the absolute value of gamma.

import { Fault } from "#base/fault.ts";
import { type ComponentFactory, read } from "../component.ts";
import { j0, j1, y0, y1 } from "../functions/bessel.ts";
import { erf, erfc, erfcinv, erfinv } from "../functions/erf.ts";
import { gamma, lgamma } from "../functions/gamma.ts";
import { roundAway, roundToEven } from "../functions/round.ts";

const FUNCTIONS: Readonly<Record<string, (x: number) => number>> = {
  abs: Math.abs,
  acos: Math.acos,
  acosh: Math.acosh,
  asin: Math.asin,
  asinh: Math.asinh,
  atan: Math.atan,
  atanh: Math.atanh,
  cbrt: Math.cbrt,
  ceil: Math.ceil,
  cos: Math.cos,
  cosh: Math.cosh,
  erf,
  erfc,
  erfcinv,
  erfinv,
  exp: Math.exp,
  exp2: (x) => 2 ** x,
  expm1: Math.expm1,
  floor: Math.floor,
  gamma,
  j0,
  j1,
  lgamma,
  log: Math.log,
  log10: Math.log10,
  log1p: Math.log1p,
  log2: Math.log2,
  round: roundAway,
  roundtoeven: roundToEven,
  sin: Math.sin,
  sinh: Math.sinh,
  sqrt: Math.sqrt,
  tan: Math.tan,
  tanh: Math.tanh,
  trunc: Math.trunc,
  y0,
  y1,
};

export const makeUnaryOperator: ComponentFactory<"unary_operator"> = ({ operator }, wires) => {
  const operate = FUNCTIONS[operator];
  if (operate === undefined) throw new Fault("INVALID_ARGUMENT", "unknown unary operator");
  const input = wires.in("input");
  const output = wires.out("output");
  return {
    run: (readings) => {
      readings[output] = operate(read(readings, input));
    },
  };
};
