// Components that remember earlier readings: averages, rate of change, and values that are held.

import { type ComponentFactories, read, truthy } from "../component.ts";
import { ticksWithin } from "../ticks.ts";
import { emptyWindow, Window } from "./window.ts";

export const HISTORY = {
  /**
   * Exponential moving average; window and warm-up are rounded up to ticks. During warm-up it computes the mean of
   * the inputs, which is the output at its end (or throughout, with valid_during_warmup); an invalid input restarts
   * the warm-up. Then the output is a·input + (1 - a)·last with a = 2 / (window + 1). An invalid input repeats the
   * last output, and a whole window of invalid inputs restarts the warm-up. An output above max_envelope is
   * multiplied by its correction factor, then one below min_envelope by the other, and the corrected output is used
   * as `last`.
   */
  ema: ({ parameters }, wires, context) => {
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
  },
  /**
   * Simple moving average: the mean of the last n valid inputs, n being the window in ticks (rounded up, at least
   * one). Invalid until there are n, unless valid_during_warmup. An invalid input repeats the last output, and n
   * invalid inputs in a row clear the window. The sum is recomputed each time, so that an infinity leaves no trace
   * once it is out of the window.
   */
  sma: ({ parameters }, wires, context) => {
    const input = wires.in("input");
    const output = wires.out("output");
    const size = Math.max(1, context.ticks(parameters.sma_window));
    const early = parameters.valid_during_warmup;
    const state = context.state(() => ({ ...emptyWindow(), gaps: 0, last: Number.NaN }));
    const window = new Window(size, state);
    return {
      run: (readings) => {
        const reading = read(readings, input);
        if (Number.isNaN(reading)) {
          state.gaps += 1;
          if (state.gaps >= size) {
            window.clear();
            state.last = Number.NaN;
          }
        } else {
          state.gaps = 0;
          window.push(reading);
          if (early || window.length === size) state.last = window.mean();
        }
        readings[output] = state.last;
      },
    };
  },
  /**
   * Rate of change of the input per tick: the difference between the newest and the oldest valid reading of the
   * window (rounded up to ticks), divided by the ticks between them. Invalid while there are fewer than two.
   */
  differentiator: (config, wires, context) => {
    const input = wires.in("input");
    const output = wires.out("output");
    // A difference needs two readings.
    const size = Math.max(2, context.ticks(config.window));
    const window = new Window(size, context.state(emptyWindow));
    return {
      run: (readings) => {
        window.push(read(readings, input));
        let oldest = 0;
        while (oldest < window.length && Number.isNaN(window.at(oldest))) oldest += 1;
        let newest = window.length - 1;
        while (newest > oldest && Number.isNaN(window.at(newest))) newest -= 1;
        if (newest <= oldest) return;
        readings[output] = (window.at(newest) - window.at(oldest)) / (newest - oldest);
      },
    };
  },
  /**
   * Captures a valid input and outputs it for hold_for (rounded up to ticks, at least one), then captures the next
   * valid one; invalid while it holds nothing. A true `reset` releases the value at once.
   */
  holder: (config, wires, context) => {
    const input = wires.in("input");
    const reset = wires.in("reset");
    const output = wires.out("output");
    const holdTicks = Math.max(1, context.ticks(config.hold_for));
    const state = context.state(() => ({ held: Number.NaN, left: 0 }));
    return {
      run: (readings) => {
        if (state.left === 0 || truthy(read(readings, reset))) {
          state.held = read(readings, input);
          state.left = Number.isNaN(state.held) ? 0 : holdTicks;
        }
        if (state.left > 0) state.left -= 1;
        readings[output] = state.held;
      },
    };
  },
  /** The input; while it is invalid, the last valid input for at most max_extrapolation_interval. */
  extrapolator: ({ parameters }, wires, context) => {
    const input = wires.in("input");
    const output = wires.out("output");
    const maxAge = ticksWithin(parameters.max_extrapolation_interval, context.intervalMs);
    const state = context.state(() => ({ last: Number.NaN, age: 0 }));
    return {
      run: (readings) => {
        const reading = read(readings, input);
        if (Number.isNaN(reading)) {
          state.age += 1;
        } else {
          state.last = reading;
          state.age = 0;
        }
        readings[output] = state.age <= maxAge ? state.last : Number.NaN;
      },
    };
  },
} as const satisfies Partial<ComponentFactories>;
