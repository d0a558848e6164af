// Asks a query once in every evaluation_interval (rounded up to ticks) and shows its last answer until another
// comes: a number, or invalid when the query failed. Invalid before the first answer.

import type { Make } from "../component.ts";
import { startOf } from "../ticks.ts";

export const makePromql: Make<"promql"> = (config, wires, around) => {
  const output = wires.out("output");
  const every = Math.max(1, around.ticks(config.evaluation_interval));
  const state = around.keep(() => ({ value: Number.NaN }));
  return {
    run: (readings, { number, timestamp, intervalMs }) => {
      readings[output] = state.value;
      if (number % every !== 0) return;
      around.ask({
        query: config.query_string,
        at: startOf(timestamp, intervalMs),
        everyMs: every * intervalMs,
        byLabel: undefined,
      });
    },
    answer: (answer) => {
      state.value = answer.kind === "value" ? answer.value : Number.NaN;
    },
  };
};
