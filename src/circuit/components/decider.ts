// 1 while "lhs operator rhs" is decided true, else 0. A comparison with an invalid operand is false. The
// decision starts at false and flips once the comparison has differed from it for `true_for` (to true) or
// `false_for` (to false), counted from the first tick at which it did; one tick that agrees starts anew.

import { Fault } from "#base/fault.ts";
import { type Make, read } from "../component.ts";

const COMPARISONS: Readonly<Record<string, (lhs: number, rhs: number) => boolean>> = {
  gt: (lhs, rhs) => lhs > rhs,
  lt: (lhs, rhs) => lhs < rhs,
  gte: (lhs, rhs) => lhs >= rhs,
  lte: (lhs, rhs) => lhs <= rhs,
  eq: (lhs, rhs) => lhs === rhs,
  // Not `!==`: that would hold for invalid operands.
  neq: (lhs, rhs) => lhs < rhs || lhs > rhs,
};

export const makeDecider: Make<"decider"> = (config, wires, around) => {
  const compare = COMPARISONS[config.operator];
  if (compare === undefined) throw new Fault("INVALID_ARGUMENT", "unknown comparison");
  const lhs = wires.in("lhs");
  const rhs = wires.in("rhs");
  const output = wires.out("output");
  const [trueFor, falseFor] = [around.ticks(config.true_for), around.ticks(config.false_for)];
  const state = around.keep(() => ({ decided: false, differing: 0 }));
  return {
    run: (readings) => {
      if (compare(read(readings, lhs), read(readings, rhs)) === state.decided) {
        state.differing = 0;
      } else if (state.differing >= (state.decided ? falseFor : trueFor)) {
        state.decided = !state.decided;
        state.differing = 0;
      } else {
        state.differing += 1;
      }
      readings[output] = Number(state.decided);
    },
  };
};
