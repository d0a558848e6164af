// Arithmetic on the readings of one tick.

import { Fault } from "#base/fault.ts";
import { type ComponentFactories, read } from "../component.ts";
import { j0, j1, y0, y1 } from "../functions/bessel.ts";
import { erf, erfc, erfcinv, erfinv } from "../functions/erf.ts";
import { gamma, lgamma } from "../functions/gamma.ts";
import { power } from "../functions/power.ts";
import { roundAway, roundToEven } from "../functions/round.ts";
import { fold, map } from "./shapes.ts";

type Operation = (lhs: number, rhs: number) => number;

const OPERATIONS: Readonly<Record<string, Operation>> = {
  add: (lhs, rhs) => lhs + rhs,
  sub: (lhs, rhs) => lhs - rhs,
  mul: (lhs, rhs) => lhs * rhs,
  div: (lhs, rhs) => (rhs === 0 ? Number.NaN : lhs / rhs),
  xor: bitwise((lhs, rhs) => lhs ^ rhs),
  lshift: bitwise((lhs, rhs) => (rhs < 64n ? lhs << rhs : 0n)),
  rshift: bitwise((lhs, rhs) => lhs >> (rhs < 64n ? rhs : 63n)),
};

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

export const ARITHMETIC = {
  /**
   * lhs operator rhs. The output is invalid if an operand is, and on division by 0. `xor`, `lshift` and `rshift`
   * truncate both operands to 64-bit integers; operands out of that range (infinite, beyond 2^63) and shifts by a
   * negative amount give an invalid output.
   */
  arithmetic_combinator: ({ operator }, wires) => {
    const operate = OPERATIONS[operator];
    if (operate === undefined) throw new Fault("INVALID_ARGUMENT", "unknown arithmetic operator");
    const lhs = wires.in("lhs");
    const rhs = wires.in("rhs");
    const output = wires.out("output");
    const shifts = operator === "lshift" || operator === "rshift";
    return {
      run: (readings) => {
        const amount = read(readings, rhs);
        readings[output] =
          shifts && amount <= -1 ? Number.NaN : operate(read(readings, lhs), amount);
      },
    };
  },
  /**
   * A function of one input. The output is invalid if the input is invalid or outside the function's domain. `round`
   * rounds halves away from zero; `lgamma` is the logarithm of the absolute value of gamma.
   */
  unary_operator: ({ operator }, wires) => {
    const operate = FUNCTIONS[operator];
    if (operate === undefined) throw new Fault("INVALID_ARGUMENT", "unknown unary operator");
    return map(wires, operate);
  },
  /**
   * y0 + t^degree·(y1 - y0), where t is the relative position of the input between start (0) and end (1). Outside
   * that range: the nearer output with clamp_to_datapoint, pre_start and post_end with clamp_to_custom_values,
   * otherwise the continued curve, which is invalid where the power is not a number. Equal inputs of start and end
   * make a step.
   */
  polynomial_range_function: ({ parameters }, wires) => {
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
  },
  /**
   * The largest input; invalid if any input is invalid or there is none. The comparison starts at the most negative
   * finite double, which is therefore the output when all inputs are -Inf.
   */
  max: (_config, wires) =>
    fold(wires, wires.all("inputs").length === 0 ? Number.NaN : -Number.MAX_VALUE, Math.max),
  /**
   * The smallest input; invalid if any input is invalid or there is none. The comparison starts at the largest finite
   * double, which is therefore the output when all inputs are +Inf.
   */
  min: (_config, wires) =>
    fold(wires, wires.all("inputs").length === 0 ? Number.NaN : Number.MAX_VALUE, Math.min),
} as const satisfies Partial<ComponentFactories>;

function bitwise(operate: (lhs: bigint, rhs: bigint) => bigint): Operation {
  return (lhs, rhs) => {
    if (!isInteger64(lhs) || !isInteger64(rhs)) return Number.NaN;
    const result = operate(BigInt(Math.trunc(lhs)), BigInt(Math.trunc(rhs)));
    return Number(BigInt.asIntN(64, result));
  };
}

function isInteger64(value: number): boolean {
  return value >= -(2 ** 63) && value < 2 ** 63;
}
