// AIAD load scheduler: lowers the load multiplier by a constant with every step of an overload, starting below
// 1, and raises it by a constant with every step without one.

import type { AiadLoadScheduler } from "../../language/load.ts";
import { type Draft, decider, integrator, type Owner, switcher } from "../draft.ts";
import { OVERLOAD_PORTS, STEP_MS, strategy } from "./strategy.ts";

export function aiadLoadScheduler(component: AiadLoadScheduler, owner: Owner): Draft {
  const {
    min_load_multiplier: least,
    max_load_multiplier: most,
    load_multiplier_linear_decrement: decrement,
    load_multiplier_linear_increment: increment,
  } = component.parameters;
  const strategyOptions = {
    kind: "aiad_load_scheduler",
    alertType: "aiad_load_scheduler",
    passThrough: "PASS_THROUGH_FROM_STRATEGY",
    parts: [
      decider("SIGNAL", component.overload_condition, "SETPOINT", "OVERLOAD_FROM_STRATEGY"),
      switcher({ by: "IS_OVERLOAD", on: -decrement, off: increment }, "LOAD_MULTIPLIER_DELTA"),
      switcher({ by: "IS_OVERLOAD", on: 1 - decrement, off: most }, "INTEGRATOR_MAX"),
      integrator(
        { initial_value: most, evaluation_interval: STEP_MS },
        { input: "LOAD_MULTIPLIER_DELTA", max: "INTEGRATOR_MAX", min: least },
        "LOAD_MULTIPLIER_FROM_STRATEGY",
      ),
      decider("LOAD_MULTIPLIER_FROM_STRATEGY", "gte", most, "PASS_THROUGH_FROM_STRATEGY"),
    ],
    ports: OVERLOAD_PORTS,
  };
  return strategy(component, strategyOptions, owner);
}
