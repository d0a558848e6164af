// lhs operator rhs. The output is invalid if an operand is, and on division by 0. `xor`, `lshift` and `rshift`
// truncate both operands to 64-bit integers; operands out of that range (infinite, beyond 2^63) and shifts by a
// negative amount give an invalid output.

import { Fault } from "#base/fault.ts";
import { type ComponentFactory, read } from "../component.ts";

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

export const makeArithmeticCombinator: ComponentFactory<"arithmetic_combinator"> = (
  { operator },
  wires,
) => {
  const operate = OPERATIONS[operator];
  if (operate === undefined) throw new Fault("INVALID_ARGUMENT", "unknown arithmetic operator");
  const lhs = wires.in("lhs");
  const rhs = wires.in("rhs");
  const output = wires.out("output");
  const shifts = operator === "lshift" || operator === "rshift";
  return {
    run: (readings) => {
      const amount = read(readings, rhs);
      readings[output] = shifts && amount <= -1 ? Number.NaN : operate(read(readings, lhs), amount);
    },
  };
};

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
