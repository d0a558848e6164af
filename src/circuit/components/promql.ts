// Sends a query once per evaluation_interval (rounded up to ticks) and outputs the last answer until the next one
// arrives: a number, or invalid if the query failed. Invalid before the first answer.

import type { ComponentFactory } from "../component.ts";
import { intervalStart } from "../ticks.ts";

export const makePromql: ComponentFactory<"promql"> = (config, wires, context) => {
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
};
