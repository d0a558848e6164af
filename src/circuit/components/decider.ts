// 1 while "lhs operator rhs" is decided to be true, otherwise 0. A comparison with an invalid operand is false. The
// decision starts as false and flips once the comparison has differed from it for `true_for` (to become true)
// or `false_for` (to become false), counted from the first tick that differs; one tick that agrees restarts the
// count.

import { Fault } from "#base/fault.ts";
import { type ComponentFactory, read } from "../component.ts";

const COMPARISONS: Readonly<Record<string, (lhs: number, rhs: number) => boolean>> = {
  gt: (lhs, rhs) => lhs > rhs,
  lt: (lhs, rhs) => lhs < rhs,
  gte: (lhs, rhs) => lhs >= rhs,
  lte: (lhs, rhs) => lhs <= rhs,
  eq: (lhs, rhs) => lhs === rhs,
  // Not `!==`, which is true for invalid operands.
  neq: (lhs, rhs) => lhs < rhs || lhs > rhs,
};

export const makeDecider: ComponentFactory<"decider"> = (config, wires, context) => {
  const compare = COMPARISONS[config.operator];
  if (compare === undefined) throw new Fault("INVALID_ARGUMENT", "unknown comparison");
  const lhs = wires.in("lhs");
  const rhs = wires.in("rhs");
  const output = wires.out("output");
  const [trueFor, falseFor] = [context.ticks(config.true_for), context.ticks(config.false_for)];
  const state = context.state((): { decided: boolean; differing: number } => ({
    decided: false,
    differing: 0,
  }));
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
