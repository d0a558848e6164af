// Exponential moving average, window and warm-up rounded up to ticks. Warm-up: the mean of the valid inputs,
// shown from the last of them on (or at once, with valid_during_warmup); a gap starts it anew. Then
// a·input + (1 - a)·last with a = 2 / (window + 1); a gap repeats the last output, and as many gaps in a row
// as the window is long start everything anew. What is above max_envelope is multiplied by its factor, then
// what is below min_envelope by its, and the corrected output is what counts as the last one.

import { type Make, read } from "../component.ts";

export const makeEma: Make<"ema"> = ({ parameters }, wires, around) => {
  const {
    correction_factor_on_max_envelope_violation: onMax,
    correction_factor_on_min_envelope_violation: onMin,
    valid_during_warmup: early,
  } = parameters;
  const [max, min] = [wires.in("max_envelope"), wires.in("min_envelope")];
  const input = wires.in("input");
  const output = wires.out("output");
  const window = Math.max(1, around.ticks(parameters.ema_window));
  const warmup = Math.max(1, around.ticks(parameters.warmup_window));
  const weight = 2 / (window + 1);
  // `last` is NaN during the warm-up.
  const state = around.keep(() => ({ sum: 0, count: 0, last: Number.NaN, gaps: 0 }));

  const begin = () => {
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
    // Also when infinities of both signs met: an average of that would never become valid again.
    if (Number.isNaN(state.last)) begin();
    return state.last;
  };
  return {
    run: (readings) => {
      const reading = read(readings, input);
      if (!Number.isNaN(state.last)) readings[output] = average(readings, reading);
      else if (Number.isNaN(reading)) begin();
      else readings[output] = warm(readings, reading);
    },
  };
};
