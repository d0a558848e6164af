// Tells load schedulers, once in every ten seconds, what share of the load to let through: the input, at least 0;
// where it is invalid, everything. With a tokens query it asks for the tokens of each workload every five
// ticks and sends the last answer along. A decision stands for five turns: agents that hear no more from us
// let everything through.

import { type Make, read } from "../component.ts";
import { isTurn, startOf } from "../ticks.ts";

const TURN_MS = 10_000;
const TURNS_VALID = 5;
const TOKENS_TICKS = 5;
const NONE: ReadonlyMap<string, number> = new Map();

export const makeLoadActuator: Make<"load_actuator"> = (config, wires, around) => {
  const input = wires.in("load_multiplier");
  const every = around.ticks(TURN_MS);
  const state = around.keep(() => ({ tokens: NONE }));
  return {
    run: (readings, tick) => {
      const { number, timestamp, intervalMs } = tick;
      if (isTurn(number, every)) {
        const multiplier = read(readings, input);
        const passThrough = Number.isNaN(multiplier);
        around.decide({
          kind: "load_scheduler",
          componentId: config.component_id,
          agentGroups: config.agent_groups,
          tick,
          loadMultiplier: passThrough ? 0 : Math.max(0, multiplier),
          passThrough,
          tokensByWorkload: state.tokens,
          validUntil: timestamp + TURNS_VALID * every * intervalMs,
        });
      }
      if (config.tokens_query === "" || number % TOKENS_TICKS !== 0) return;
      around.ask({
        query: config.tokens_query,
        at: startOf(timestamp, intervalMs),
        everyMs: TOKENS_TICKS * intervalMs,
        byLabel: "workload_index",
      });
    },
    answer: (answer) => {
      state.tokens = answer.kind === "by_label" ? answer.values : NONE;
    },
  };
};
