// Exponential moving average; window and warm-up are rounded up to ticks. During warm-up it computes the mean of
// the inputs, which is the output at its end (or throughout, with valid_during_warmup); an invalid input
// restarts the warm-up. Then the output is a·input + (1 - a)·last with a = 2 / (window + 1). An invalid input
// repeats the last output, and a whole window of invalid inputs restarts the warm-up. An output above
// max_envelope is multiplied by its correction factor, then one below min_envelope by the other, and the
// corrected output is used as `last`.

import { type ComponentFactory, read } from "../component.ts";

export const makeEma: ComponentFactory<"ema"> = ({ parameters }, wires, context) => {
  const {
    correction_factor_on_max_envelope_violation: onMax,
    correction_factor_on_min_envelope_violation: onMin,
    valid_during_warmup: early,
  } = parameters;
  const [max, min] = [wires.in("max_envelope"), wires.in("min_envelope")];
  const input = wires.in("input");
  const output = wires.out("output");
  const window = Math.max(1, context.ticks(parameters.ema_window));
  const warmup = Math.max(1, context.ticks(parameters.warmup_window));
  const weight = 2 / (window + 1);
  // `last` is NaN during the warm-up.
  const state = context.state(() => ({ sum: 0, count: 0, last: Number.NaN, gaps: 0 }));

  const restart = () => {
    state.sum = 0;
    state.count = 0;
    state.gaps = 0;
    state.last = Number.NaN;
  };
  const corrected = (readings: Float64Array, value: number) => {
    const lowered = value > read(readings, max) ? value * onMax : value;
    return lowered < read(readings, min) ? lowered * onMin : lowered;
  };
  const warm = (readings: Float64Array, reading: number) => {
    state.sum += reading;
    state.count += 1;
    const mean = corrected(readings, state.sum / state.count);
    if (state.count >= warmup) state.last = mean;
    return state.count >= warmup || early ? mean : Number.NaN;
  };
  const average = (readings: Float64Array, reading: number) => {
    if (Number.isNaN(reading)) {
      state.gaps += 1;
      state.last = state.gaps >= window ? Number.NaN : corrected(readings, state.last);
    } else {
      state.gaps = 0;
      state.last = corrected(readings, weight * reading + (1 - weight) * state.last);
    }
    // Also after infinities of both signs, from which the average would never become valid again.
    if (Number.isNaN(state.last)) restart();
    return state.last;
  };
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (!Number.isNaN(state.last)) readings[output] = average(readings, reading);
      else if (Number.isNaN(reading)) restart();
      else readings[output] = warm(readings, reading);
    },
  };
};
