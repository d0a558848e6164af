// Logic, comparison and choice between signals. 0 is false, any other valid reading is true, an invalid one is unknown.

import { Fault } from "#base/fault.ts";
import { type ComponentFactories, read, truthy } from "../component.ts";
import { fold, map } from "./shapes.ts";

const COMPARISONS: Readonly<Record<string, (lhs: number, rhs: number) => boolean>> = {
  gt: (lhs, rhs) => lhs > rhs,
  lt: (lhs, rhs) => lhs < rhs,
  gte: (lhs, rhs) => lhs >= rhs,
  lte: (lhs, rhs) => lhs <= rhs,
  eq: (lhs, rhs) => lhs === rhs,
  // Not `!==`, which is true for invalid operands.
  neq: (lhs, rhs) => lhs < rhs || lhs > rhs,
};

export const LOGIC = {
  /**
   * Logical and of three values. The output is 0 if any input is false, otherwise invalid if any is unknown, otherwise 1. It is 1 without inputs.
   */
  and: (_config, wires) =>
    fold(wires, 1, (all, reading) => {
      if (all === 0 || reading === 0) return 0;
      return Number.isNaN(reading) ? Number.NaN : all;
    }),
  /**
   * Logical or of three values. The output is 1 if any input is true, otherwise invalid if any is unknown, otherwise 0. It is 0 without inputs.
   */
  or: (_config, wires) =>
    fold(wires, 0, (any, reading) => {
      if (any === 1 || truthy(reading)) return 1;
      return Number.isNaN(reading) ? Number.NaN : any;
    }),
  /** Logical not: 1 for 0, 0 for any other valid reading, invalid for invalid. */
  inverter: (_config, wires) => map(wires, not),
  /**
   * 1 while "lhs operator rhs" is decided to be true, otherwise 0. A comparison with an invalid operand is false. The
   * decision starts as false and flips once the comparison has differed from it for `true_for` (to become true) or
   * `false_for` (to become false), counted from the first tick that differs; one tick that agrees restarts the count.
   */
  decider: (config, wires, context) => {
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
  },
  /** `on_signal` while the switch is valid and not 0, otherwise `off_signal`. */
  switcher: (_config, wires) => {
    const [on, off] = [wires.in("on_signal"), wires.in("off_signal")];
    const input = wires.in("switch");
    const output = wires.out("output");
    return {
      run: (readings) => {
        readings[output] = read(readings, truthy(read(readings, input)) ? on : off);
      },
    };
  },
  /** The first valid input in list order; invalid if there is none. */
  first_valid: (_config, wires) => {
    const inputs = wires.all("inputs");
    const output = wires.out("output");
    return {
      run: (readings) => {
        for (const input of inputs) {
          const reading = read(readings, input);
          readings[output] = reading;
          if (!Number.isNaN(reading)) return;
        }
      },
    };
  },
  /**
   * Copies what an in-port of a nested circuit reads in the outer circuit to a signal inside; invalid if the port is
   * unconnected.
   */
  nested_signal_ingress: (_config, wires) => map(wires, same, "signal", "signal"),
  /** Copies a signal of a nested circuit to the signal that its out-port writes in the outer circuit. */
  nested_signal_egress: (_config, wires) => map(wires, same, "signal", "signal"),
} as const satisfies Partial<ComponentFactories>;

function not(reading: number): number {
  return Number.isNaN(reading) ? Number.NaN : Number(reading === 0);
}

function same(reading: number): number {
  return reading;
}
