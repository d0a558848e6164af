// PID controller: kp·e + I + kd·(signal - its last value), with e = setpoint - signal and I the sum of ki·e. The
// output is clamped to `max`, then `min`, where these are valid, and what clamping takes away is also subtracted
// from I (unless ki is 0) to prevent windup. The first sample has no derivative. It acts when it is due (every
// tick, or once per evaluation_interval; never at the first tick) and repeats its last output otherwise and for
// invalid samples; reset_after_invalid_samples of these in a row reset it.

import { type ComponentFactory, read } from "../component.ts";
import { isDue } from "../ticks.ts";
import { limited } from "./limited.ts";

export const makePidController: ComponentFactory<"pid_controller"> = (
  { parameters },
  wires,
  context,
) => {
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
};

/** A gain of 0 switches a term off, also for infinite values, where the product would be NaN. */
function term(gain: number, value: number): number {
  return gain === 0 ? 0 : gain * value;
}
