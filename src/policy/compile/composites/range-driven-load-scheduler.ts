// Range-driven load scheduler: takes the load multiplier from a curve over the signal. An overload that is not
// confirmed lets everything pass (D-5).

import type { RangeDrivenLoadScheduler } from "../../language/load.ts";
import { type Draft, decider, fold, inverter, leaf, type Owner } from "../draft.ts";
import { strategy } from "./strategy.ts";

export function rangeDrivenLoadScheduler(component: RangeDrivenLoadScheduler, owner: Owner): Draft {
  const {
    low_throttle_threshold: low,
    high_throttle_threshold: high,
    degree,
  } = component.parameters;
  const rising = low.load_multiplier < high.load_multiplier;
  const curve = {
    start: { input: low.signal_value, output: low.load_multiplier },
    end: { input: high.signal_value, output: high.load_multiplier },
    degree,
    clamp_to_datapoint: undefined,
    clamp_to_custom_values: {
      pre_start: rising ? low.load_multiplier : 1,
      post_end: rising ? 1 : high.load_multiplier,
    },
    continue_curve: undefined,
  };
  const strategyOptions = {
    kind: "range_driven_load_scheduler",
    alertType: "range_driven_load_scheduler",
    passThrough: "PASS_THROUGH",
    parts: [
      leaf(
        "polynomial_range_function",
        { parameters: curve },
        { input: "SIGNAL" },
        { output: "LOAD_MULTIPLIER_FROM_STRATEGY" },
      ),
      decider("LOAD_MULTIPLIER_FROM_STRATEGY", "gte", 1, "PASS_THROUGH_FROM_STRATEGY"),
      inverter("IS_OVERLOAD", "NOT_IS_OVERLOAD"),
      fold("or", ["PASS_THROUGH_FROM_STRATEGY", "NOT_IS_OVERLOAD"], "PASS_THROUGH"),
      decider("LOAD_MULTIPLIER_FROM_STRATEGY", "lt", 1, "OVERLOAD_FROM_STRATEGY"),
    ],
    ports: { signal: "SIGNAL", overload_confirmation: "OVERLOAD_CONFIRMATION" },
  };
  return strategy(component, strategyOptions, owner);
}
