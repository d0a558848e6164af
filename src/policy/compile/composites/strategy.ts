// The common part of the strategies that drive a load scheduler: an overload counts only once it is confirmed,
// pass-through makes the multiplier invalid so that everything passes, and an alert is raised while load is cut.
//
// A strategy writes the signals OVERLOAD_FROM_STRATEGY and LOAD_MULTIPLIER_FROM_STRATEGY; it may read IS_OVERLOAD
// and OBSERVED_LOAD_MULTIPLIER.

import type { Configs } from "#circuit/plan.ts";
import type { LoadScheduler } from "../../language/load.ts";
import {
  alerter,
  composite,
  type Draft,
  decider,
  egress,
  fold,
  ingress,
  type Owner,
  switcher,
} from "../draft.ts";
import { loadScheduler } from "./load-scheduler.ts";

interface StrategyComponent
  extends Pick<LoadScheduler, "dry_run" | "dry_run_config_key">,
    Pick<Parameters<typeof composite>[1], "in_ports" | "out_ports"> {
  readonly parameters: {
    readonly load_scheduler: LoadScheduler["parameters"];
    readonly alerter: Configs["alerter"]["parameters"];
  };
}

export interface Strategy {
  readonly kind: string;
  /** Label `type` of the alert. */
  readonly alertType: string;
  /** Signal that lets everything pass while it is true. */
  readonly passThrough: string;
  readonly parts: readonly Draft[];
  /** In-ports in order, each with its signal inside. */
  readonly ports: Readonly<Record<string, string>>;
}

const DESIRED = "DESIRED_LOAD_MULTIPLIER";
const OBSERVED = "OBSERVED_LOAD_MULTIPLIER";

export function strategy(component: StrategyComponent, options: Strategy, owner: Owner): Draft {
  const { parameters, dry_run, dry_run_config_key } = component;
  const scheduler: LoadScheduler = {
    in_ports: { load_multiplier: { signal_name: DESIRED, constant_signal: undefined } },
    out_ports: { observed_load_multiplier: { signal_name: OBSERVED } },
    parameters: parameters.load_scheduler,
    dry_run,
    dry_run_config_key,
  };
  const labels = new Map([...parameters.alerter.labels, ["type", options.alertType]]);
  return composite(options.kind, component, () => [
    fold("first_valid", ["OVERLOAD_CONFIRMATION", 1], "OVERLOAD_CONFIRMATION_WITH_DEFAULT"),
    fold("and", ["OVERLOAD_FROM_STRATEGY", "OVERLOAD_CONFIRMATION_WITH_DEFAULT"], "IS_OVERLOAD"),
    switcher(
      { by: options.passThrough, on: Number.NaN, off: "LOAD_MULTIPLIER_FROM_STRATEGY" },
      DESIRED,
    ),
    decider(DESIRED, "lt", 1, "LOAD_MULTIPLIER_ALERT"),
    loadScheduler(scheduler, owner),
    alerter({ ...parameters.alerter, labels }, "LOAD_MULTIPLIER_ALERT"),
    ...options.parts,
    ...Object.entries(options.ports).map(([port, signal]) => ingress(port, signal)),
    egress("is_overload", "IS_OVERLOAD"),
    egress("desired_load_multiplier", DESIRED),
    egress("observed_load_multiplier", OBSERVED),
  ]);
}

export const OVERLOAD_PORTS = {
  signal: "SIGNAL",
  setpoint: "SETPOINT",
  overload_confirmation: "OVERLOAD_CONFIRMATION",
} as const;

/** Time between two steps of a strategy. */
export const STEP_MS = 10_000;
