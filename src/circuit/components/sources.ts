// Components that bring signals into a circuit: constants, generators and queries.

import { type ComponentFactories, read, truthy } from "../component.ts";
import { constantOf } from "../plan.ts";
import { intervalStart } from "../ticks.ts";

interface Step {
  readonly start: number;
  readonly ticks: number;
  readonly from: number;
  readonly to: number;
}

export const SOURCES = {
  /** A constant, or its override in the dynamic configuration under `config_key`. */
  variable: ({ constant_output, config_key }, wires) => {
    const output = wires.out("output");
    const own = constantOf(constant_output);
    let value = own;
    return {
      run: (readings) => {
        readings[output] = value;
      },
      configure: (overrides) => {
        value = overrides.number(config_key) ?? own;
      },
    };
  },
  /** 1 or 0: a boolean constant, or its override in the dynamic configuration under `config_key`. */
  bool_variable: ({ constant_output, config_key }, wires) => {
    const output = wires.out("output");
    let value = Number(constant_output);
    return {
      run: (readings) => {
        readings[output] = value;
      },
      configure: (overrides) => {
        value = Number(overrides.boolean(config_key) ?? constant_output);
      },
    };
  },
  /** Alternates between 1 for true_for and 0 for false_for; each is rounded up to ticks, at least one. */
  pulse_generator: (config, wires, context) => {
    const output = wires.out("output");
    const high = Math.max(1, context.ticks(config.true_for));
    const low = Math.max(1, context.ticks(config.false_for));
    const state = context.state(() => ({ at: 0 }));
    return {
      run: (readings) => {
        readings[output] = Number(state.at < high);
        state.at = (state.at + 1) % (high + low);
      },
    };
  },
  /**
   * Moves along its steps, one tick at a time: forward while only `forward` is true, backward while only `backward`
   * is, otherwise not at all; `reset` returns to the start and takes precedence. The first step outputs its target.
   * Every other step interpolates linearly from the previous target to its own if both are finite, otherwise it
   * outputs its own. After the last step the last target remains. Durations are rounded up to ticks, at least one.
   */
  signal_generator: ({ parameters }, wires, context) => {
    const [forward, backward] = [wires.in("forward"), wires.in("backward")];
    const reset = wires.in("reset");
    const output = wires.out("output");
    const [atStart, atEnd] = [wires.out("at_start"), wires.out("at_end")];
    const steps: Step[] = [];
    let end = 0;
    for (const { target_output, duration } of parameters.steps) {
      const to = constantOf(target_output ?? {});
      const ticks = Math.max(1, context.ticks(duration));
      steps.push({ start: end, ticks, from: steps.at(-1)?.to ?? Number.NaN, to });
      end += ticks;
    }
    const target = steps.at(-1)?.to ?? Number.NaN;
    const state = context.state(() => ({ at: 0 }));
    return {
      run: (readings) => {
        const direction =
          Number(truthy(read(readings, forward))) - Number(truthy(read(readings, backward)));
        if (truthy(read(readings, reset))) state.at = 0;
        else state.at = Math.min(Math.max(0, state.at + direction), end);
        readings[output] = state.at >= end ? target : valueAt(steps, state.at);
        readings[atStart] = Number(state.at === 0);
        readings[atEnd] = Number(state.at >= end);
      },
    };
  },
  /**
   * Sends a query once per evaluation_interval (rounded up to ticks) and outputs the last answer until the next one
   * arrives: a number, or invalid if the query failed. Invalid before the first answer.
   */
  promql: (config, wires, context) => {
    const output = wires.out("output");
    const every = Math.max(1, context.ticks(config.evaluation_interval));
    const state = context.state(() => ({ value: Number.NaN }));
    return {
      run: (readings, { number, timestamp, intervalMs }) => {
        readings[output] = state.value;
        if (number % every !== 0) return;
        context.ask({
          query: config.query_string,
          at: intervalStart(timestamp, intervalMs),
          periodMs: every * intervalMs,
          byLabel: undefined,
        });
      },
      answer: (answer) => {
        state.value = answer.kind === "value" ? answer.value : Number.NaN;
      },
    };
  },
} as const satisfies Partial<ComponentFactories>;

function valueAt(steps: readonly Step[], at: number): number {
  for (const { start, ticks, from, to } of steps) {
    if (at >= start + ticks) continue;
    if (!Number.isFinite(from) || !Number.isFinite(to)) return to;
    return from + (to - from) * ((at - start) / ticks);
  }
  return Number.NaN;
}
