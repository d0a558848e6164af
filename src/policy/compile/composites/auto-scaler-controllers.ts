// Controllers of an auto scaler: each proposes a number of replicas, from the gradient of a signal or by
// decreasing periodically. An invalid proposal is replaced by the actual scale.

import type { InPort } from "../../language/ports.ts";
import type { AutoScaler } from "../../language/scale.ts";
import { alerter, arithmetic, type Draft, fold, ingress, leaf, switcher, unary } from "../draft.ts";

export interface Controller {
  readonly parts: readonly Draft[];
  readonly ports: readonly (readonly [string, InPort | undefined])[];
  /** Signal of the proposed scale. */
  readonly proposal: string;
  /** Signal that raises the controller's alert: true while it proposes a change (D-19). */
  readonly alert: string;
}

const ACTUAL = "ACTUAL_SCALE";

/** Controllers for scaling in and out, each list in document order. */
export function controllersOf(component: AutoScaler): {
  readonly in: readonly Controller[];
  readonly out: readonly Controller[];
} {
  return {
    in: component.scale_in_controllers.map((each, at) => {
      const { gradient, periodic } = each.controller;
      if (periodic !== undefined) return periodicDecrease(periodic, each.alerter, at);
      const { slope = 1, min_gradient = Number.NEGATIVE_INFINITY } = gradient?.parameters ?? {};
      const parameters = { slope, min_gradient, max_gradient: 1 };
      return gradientController("in", gradient?.in_ports, parameters, each.alerter, at);
    }),
    out: component.scale_out_controllers.map((each, at) => {
      const { gradient } = each.controller;
      const { slope = 1, max_gradient = Number.POSITIVE_INFINITY } = gradient?.parameters ?? {};
      const parameters = { slope, min_gradient: 1, max_gradient };
      return gradientController("out", gradient?.in_ports, parameters, each.alerter, at);
    }),
  };
}

type Alerter = AutoScaler["scaling_parameters"]["scale_in_alerter"];

function gradientController(
  direction: "in" | "out",
  ins: { readonly signal: InPort | undefined; readonly setpoint: InPort | undefined } | undefined,
  parameters: {
    readonly slope: number;
    readonly min_gradient: number;
    readonly max_gradient: number;
  },
  alert: Alerter,
  at: number,
): Controller {
  const { prefix, signals } = names(direction, at);
  const [signal, setpoint] = [`${prefix}_SIGNAL_${at}`, `${prefix}_SETPOINT_${at}`];
  return {
    ...signals,
    ports: [
      [`scale_${direction}_signal_${at}`, ins?.signal],
      [`scale_${direction}_setpoint_${at}`, ins?.setpoint],
    ],
    parts: [
      ingress(`scale_${direction}_signal_${at}`, signal),
      ingress(`scale_${direction}_setpoint_${at}`, setpoint),
      leaf(
        "gradient_controller",
        { parameters, manual_mode: false, manual_mode_config_key: "" },
        { signal, setpoint, control_variable: ACTUAL, max: undefined, min: undefined },
        { output: `${prefix}_PRE_CEIL_${at}` },
      ),
      ...proposal(`${prefix}_PRE_CEIL_${at}`, prefix, at),
      alerter(alert, signals.alert),
    ],
  };
}

type Periodic = NonNullable<AutoScaler["scale_in_controllers"][number]["controller"]["periodic"]>;

/** Proposes a decrease in one tick of every period, and no change in the other ticks. */
function periodicDecrease(
  { period, scale_in_percentage }: Periodic,
  alert: Alerter,
  at: number,
): Controller {
  const { prefix, signals } = names("in", at);
  const [by, decreased] = [`${prefix}_BY_${at}`, `${prefix}_DECREASED_${at}`];
  return {
    ...signals,
    ports: [],
    parts: [
      arithmetic(ACTUAL, "mul", scale_in_percentage / 100, `${by}_PRE_MAX`),
      fold("max", [1, `${by}_PRE_MAX`], `${by}_PRE_CEIL`),
      unary("ceil", `${by}_PRE_CEIL`, by),
      arithmetic(ACTUAL, "sub", by, decreased),
      // A pulse is at least one tick long.
      leaf(
        "pulse_generator",
        { true_for: 0, false_for: period },
        {},
        { output: `${prefix}_PULSE_${at}` },
      ),
      switcher(
        { by: `${prefix}_PULSE_${at}`, on: decreased, off: undefined },
        `${prefix}_PRE_CEIL_${at}`,
      ),
      ...proposal(`${prefix}_PRE_CEIL_${at}`, prefix, at),
      alerter(alert, signals.alert),
    ],
  };
}

function proposal(from: string, prefix: string, at: number): readonly Draft[] {
  const valid = `${prefix}_PRE_CEIL_FIRST_VALID_${at}`;
  return [fold("first_valid", [from, ACTUAL], valid), unary("ceil", valid, `${prefix}_${at}`)];
}

function names(direction: "in" | "out", at: number) {
  const prefix = `SCALE_${direction.toUpperCase()}`;
  return { prefix, signals: { proposal: `${prefix}_${at}`, alert: `${prefix}_PROPOSED_${at}` } };
}
