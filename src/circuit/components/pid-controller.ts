// kp·e + I + kd·(signal - its last value) with e = setpoint - signal and I the sum of ki·e; at most `max`, then
// at least `min`, where these are valid, and what the limits took away is taken from I too (where ki is not
// 0). The first sample has no derivative. Acts at its turns (every tick, or once in every
// evaluation_interval; never at the first tick) and shows its last output in between and at invalid samples;
// reset_after_invalid_samples of these in a row forget everything.

import { type Make, read } from "../component.ts";
import { isTurn } from "../ticks.ts";
import { limited } from "./limited.ts";

export const makePidController: Make<"pid_controller"> = ({ parameters }, wires, around) => {
  const { kp, ki, kd, reset_after_invalid_samples: patience } = parameters;
  const [signal, setpoint] = [wires.in("signal"), wires.in("setpoint")];
  const limit = limited(wires);
  const output = wires.out("output");
  const every = Math.max(1, around.ticks(parameters.evaluation_interval ?? 0));
  // `before` is the last valid signal.
  const state = around.keep(() => ({ integral: 0, before: Number.NaN, last: Number.NaN, gaps: 0 }));

  const act = (readings: Float64Array, value: number, error: number) => {
    const integral = state.integral + part(ki, error);
    const slope = Number.isNaN(state.before) ? 0 : value - state.before;
    const wanted = part(kp, error) + integral + part(kd, slope);
    const given = limit(readings, wanted);
    const left = ki === 0 ? integral : integral + given - wanted;
    // An infinite sample must not stay in the sum for ever.
    if (Number.isFinite(left)) state.integral = left;
    state.before = value;
    state.last = given;
  };
  const miss = () => {
    state.gaps += 1;
    if (state.gaps < patience) return;
    state.integral = 0;
    state.before = Number.NaN;
    state.last = Number.NaN;
  };
  return {
    run: (readings, { number }) => {
      if (isTurn(number, every)) {
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

/** A gain of 0 is a part that is not there: nothing infinite comes of it. */
function part(gain: number, value: number): number {
  return gain === 0 ? 0 : gain * value;
}
