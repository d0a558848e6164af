// Controllers, and the integrator that shares their limits.

import { type ComponentFactories, read, truthy, type Wires } from "../component.ts";
import { power } from "../functions/power.ts";
import { isDue } from "../ticks.ts";

export const CONTROL = {
  /**
   * control_variable × (signal / setpoint)^slope. The factor is clamped to min_gradient and max_gradient, the output
   * to `max`, then `min`, where these are valid. Invalid if one of the three inputs is invalid, the setpoint is 0, or
   * the power is not a number. In manual mode the output is the control variable.
   */
  gradient_controller: (config, wires) => {
    const { slope, min_gradient, max_gradient } = config.parameters;
    const [signal, setpoint] = [wires.in("signal"), wires.in("setpoint")];
    const variable = wires.in("control_variable");
    const limit = limited(wires);
    const output = wires.out("output");
    let manual = config.manual_mode;
    return {
      run: (readings) => {
        const value = read(readings, variable);
        if (manual) {
          readings[output] = value;
          return;
        }
        const goal = read(readings, setpoint);
        const ratio = read(readings, signal) / goal;
        if (goal === 0 || Number.isNaN(ratio) || Number.isNaN(value)) return;
        const gradient = power(ratio, slope);
        const factor = Math.max(Math.min(gradient, max_gradient), min_gradient);
        readings[output] = limit(readings, factor * value);
      },
      configure: (overrides) => {
        manual = overrides.boolean(config.manual_mode_config_key) ?? config.manual_mode;
      },
    };
  },
  /**
   * PID controller: kp·e + I + kd·(signal - its last value), with e = setpoint - signal and I the sum of ki·e. The
   * output is clamped to `max`, then `min`, where these are valid, and what clamping takes away is also subtracted
   * from I (unless ki is 0) to prevent windup. The first sample has no derivative. It acts when it is due (every
   * tick, or once per evaluation_interval; never at the first tick) and repeats its last output otherwise and for
   * invalid samples; reset_after_invalid_samples of these in a row reset it.
   */
  pid_controller: ({ parameters }, wires, context) => {
    const { kp, ki, kd, reset_after_invalid_samples: maxGaps } = parameters;
    const [signal, setpoint] = [wires.in("signal"), wires.in("setpoint")];
    const limit = limited(wires);
    const output = wires.out("output");
    const every = Math.max(1, context.ticks(parameters.evaluation_interval ?? 0));
    // `before` is the last valid signal.
    const state = context.state(() => ({
      integral: 0,
      before: Number.NaN,
      last: Number.NaN,
      gaps: 0,
    }));

    const act = (readings: Float64Array, value: number, error: number) => {
      const integral = state.integral + term(ki, error);
      const slope = Number.isNaN(state.before) ? 0 : value - state.before;
      const wanted = term(kp, error) + integral + term(kd, slope);
      const given = limit(readings, wanted);
      const left = ki === 0 ? integral : integral + given - wanted;
      // An infinite sample must not stay in the sum forever.
      if (Number.isFinite(left)) state.integral = left;
      state.before = value;
      state.last = given;
    };
    const miss = () => {
      state.gaps += 1;
      if (state.gaps < maxGaps) return;
      state.integral = 0;
      state.before = Number.NaN;
      state.last = Number.NaN;
    };
    return {
      run: (readings, { number }) => {
        if (isDue(number, every)) {
          const value = read(readings, signal);
          const error = read(readings, setpoint) - value;
          if (Number.isNaN(error)) {
            miss();
          } else {
            state.gaps = 0;
            act(readings, value, error);
          }
        }
        readings[output] = state.last;
      },
    };
  },
  /**
   * A running sum that starts at initial_value and is output in every tick. When it is due (every tick, or once per
   * evaluation_interval; never at the first tick), a true `reset` sets it to 0; otherwise a valid input is added and
   * the sum is clamped to `max`, then `min`, where these are valid.
   */
  integrator: (config, wires, context) => {
    const input = wires.in("input");
    const reset = wires.in("reset");
    const limit = limited(wires);
    const output = wires.out("output");
    const every = Math.max(1, context.ticks(config.evaluation_interval ?? 0));
    const state = context.state(() => ({ sum: config.initial_value }));
    return {
      run: (readings, { number }) => {
        if (isDue(number, every)) {
          const reading = read(readings, input);
          if (truthy(read(readings, reset))) state.sum = 0;
          else if (!Number.isNaN(reading)) state.sum = limit(readings, state.sum + reading);
        }
        readings[output] = state.sum;
      },
    };
  },
} as const satisfies Partial<ComponentFactories>;

/** A gain of 0 switches a term off, also for infinite values, where the product would be NaN. */
function term(gain: number, value: number): number {
  return gain === 0 ? 0 : gain * value;
}

/** Clamps a value to the in-ports `max`, then `min`, each only while it is valid. */
function limited(wires: Wires): (readings: Float64Array, value: number) => number {
  const [max, min] = [wires.in("max"), wires.in("min")];
  return (readings, value) => {
    const [upper, lower] = [read(readings, max), read(readings, min)];
    const below = Number.isNaN(upper) ? value : Math.min(value, upper);
    return Number.isNaN(lower) ? below : Math.max(below, lower);
  };
}
