// AIMD load scheduler: multiplies the load by a gradient during an overload. Recovery adds an offset, which grows
// with every step, to the share that is let through, until the maximum is reached and everything passes. The
// deprecated adaptive load scheduler differs only in its default increment.

import type { AdaptiveLoadScheduler, AimdLoadScheduler } from "../../language/load.ts";
import {
  arithmetic,
  type Draft,
  decider,
  integrator,
  leaf,
  type Owner,
  switcher,
} from "../draft.ts";
import { OVERLOAD_PORTS, STEP_MS, strategy } from "./strategy.ts";

export function aimdLoadScheduler(
  kind: "aimd_load_scheduler" | "adaptive_load_scheduler",
  component: AimdLoadScheduler | AdaptiveLoadScheduler,
  owner: Owner,
): Draft {
  const { gradient, max_load_multiplier: most, ...rest } = component.parameters;
  const strategyOptions = {
    kind,
    alertType: "aimd_load_scheduler",
    passThrough: "PASS_THROUGH_FROM_STRATEGY",
    parts: [
      decider("SIGNAL", gradient.slope > 0 ? "lt" : "gt", "SETPOINT", "OVERLOAD_FROM_STRATEGY"),
      leaf(
        "gradient_controller",
        { parameters: gradient, manual_mode: false, manual_mode_config_key: "" },
        {
          signal: "SIGNAL",
          setpoint: "SETPOINT",
          control_variable: "OBSERVED_LOAD_MULTIPLIER",
          max: undefined,
          min: undefined,
        },
        { output: "LOAD_MULTIPLIER_IF_OVERLOAD" },
      ),
      integrator(
        { initial_value: most, evaluation_interval: STEP_MS },
        { input: rest.load_multiplier_linear_increment, max: most, reset: "IS_OVERLOAD" },
        "LOAD_MULTIPLIER_OPTIMIZATION",
      ),
      arithmetic(
        "OBSERVED_LOAD_MULTIPLIER",
        "add",
        "LOAD_MULTIPLIER_OPTIMIZATION",
        "LOAD_MULTIPLIER_IF_NORMAL",
      ),
      switcher(
        { by: "IS_OVERLOAD", on: "LOAD_MULTIPLIER_IF_OVERLOAD", off: "LOAD_MULTIPLIER_IF_NORMAL" },
        "LOAD_MULTIPLIER_FROM_STRATEGY",
      ),
      decider("LOAD_MULTIPLIER_FROM_STRATEGY", "gte", most, "PASS_THROUGH_FROM_STRATEGY"),
    ],
    ports: OVERLOAD_PORTS,
  };
  return strategy(component, strategyOptions, owner);
}
