// Decides every ten seconds what fraction of the load schedulers let through: the input, at least 0. Fails open:
// while the input is invalid, everything passes. With a tokens query it also queries the tokens of each
// workload every five ticks and sends the last answer with the decision. A decision is valid for five
// periods, after which agents let everything through.

import { type ComponentFactory, read } from "../component.ts";
import { intervalStart, isDue } from "../ticks.ts";

const PERIOD_MS = 10_000;
const PERIODS_VALID = 5;
const TOKENS_TICKS = 5;
const NONE: ReadonlyMap<string, number> = new Map();

export const makeLoadActuator: ComponentFactory<"load_actuator"> = (config, wires, context) => {
  const input = wires.in("load_multiplier");
  const every = context.ticks(PERIOD_MS);
  const state = context.state(() => ({ tokens: NONE }));
  return {
    run: (readings, tick) => {
      const { number, timestamp, intervalMs } = tick;
      if (isDue(number, every)) {
        const multiplier = read(readings, input);
        const passThrough = Number.isNaN(multiplier);
        context.decide({
          kind: "load_scheduler",
          componentId: config.component_id,
          agentGroups: config.agent_groups,
          tick,
          loadMultiplier: passThrough ? 0 : Math.max(0, multiplier),
          passThrough,
          tokensByWorkload: state.tokens,
          validUntil: timestamp + PERIODS_VALID * every * intervalMs,
        });
      }
      if (config.tokens_query === "" || number % TOKENS_TICKS !== 0) return;
      context.ask({
        query: config.tokens_query,
        at: intervalStart(timestamp, intervalMs),
        periodMs: TOKENS_TICKS * intervalMs,
        byLabel: "workload_index",
      });
    },
    answer: (answer) => {
      state.tokens = answer.kind === "by_label" ? answer.values : NONE;
    },
  };
};
