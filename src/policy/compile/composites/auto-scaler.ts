// Auto scaler: controllers propose numbers of replicas, the greatest proposal wins, cooldowns hold it, bounds limit
// each step, and a pod scaler carries it out.

import type { AutoScaler } from "../../language/scale.ts";
import {
  alerter,
  arithmetic,
  composite,
  type Draft,
  decider,
  egress,
  fold,
  holder,
  switcher,
  unary,
} from "../draft.ts";
import { type Controller, controllersOf } from "./auto-scaler-controllers.ts";
import { podScaler } from "./pod-scaler.ts";

type Parameters = AutoScaler["scaling_parameters"];

const ACTUAL = "ACTUAL_SCALE";
const CONFIGURED = "CONFIGURED_SCALE";
const DESIRED = "DESIRED_SCALE";

export function autoScaler(component: AutoScaler): Draft {
  const replicas = component.scaling_backend.kubernetes_replicas;
  if (replicas === undefined) throw new Error("an auto scaler without a backend passed validation");
  const { scaling_parameters: parameters } = component;
  const controllers = controllersOf(component);
  const { in: scaleIn, out: scaleOut } = controllers;
  const object = replicas.kubernetes_object_selector;
  const ins = Object.fromEntries([...scaleIn, ...scaleOut].flatMap(({ ports }) => ports));
  const out_ports = {
    actual_scale: replicas.out_ports?.actual_replicas,
    configured_scale: replicas.out_ports?.configured_replicas,
    desired_scale: replicas.out_ports?.desired_replicas,
  };
  return composite("auto_scaler", { in_ports: ins, out_ports }, () => [
    ...bounds(parameters, Number(replicas.min_replicas), Number(replicas.max_replicas)),
    ...[...scaleIn, ...scaleOut].flatMap(({ parts }) => parts),
    ...intents(scaleIn, scaleOut),
    ...cooldowns(parameters),
    ...desired(),
    podScaler({
      in_ports: { replicas: { signal_name: DESIRED, constant_signal: undefined } },
      out_ports: {
        actual_replicas: { signal_name: ACTUAL },
        configured_replicas: { signal_name: CONFIGURED },
      },
      dry_run: component.dry_run,
      dry_run_config_key: component.dry_run_config_key,
      kubernetes_object_selector: object,
    }),
    egress("actual_scale", ACTUAL),
    egress("configured_scale", CONFIGURED),
    egress("desired_scale", DESIRED),
    decider(DESIRED, "gt", CONFIGURED, "DESIRED_SCALE_GREATER"),
    alerter(parameters.scale_out_alerter, "DESIRED_SCALE_GREATER"),
    decider(DESIRED, "lt", CONFIGURED, "DESIRED_SCALE_LESSER"),
    alerter(parameters.scale_in_alerter, "DESIRED_SCALE_LESSER"),
    // Last, so that the components before keep their ids.
    ...[...scaleIn, ...scaleOut].map(({ proposal, alert }) =>
      decider(proposal, "neq", ACTUAL, alert),
    ),
  ]);
}

/** Writes MIN_DESIRED_SCALE and MAX_DESIRED_SCALE, the bounds of one step within the object's own bounds. */
function bounds(parameters: Parameters, least: number, most: number): readonly Draft[] {
  return [
    arithmetic(parameters.max_scale_in_percentage / 100, "mul", ACTUAL, "MAX_SCALE_IN_PRE_FLOOR"),
    unary("floor", "MAX_SCALE_IN_PRE_FLOOR", "MAX_SCALE_IN_PRE_CONSTRAINT"),
    fold("max", ["MAX_SCALE_IN_PRE_CONSTRAINT", 1], "MAX_SCALE_IN"),
    arithmetic(ACTUAL, "sub", "MAX_SCALE_IN", "MIN_DESIRED_SCALE_PRE_CONSTRAINT"),
    fold("max", ["MIN_DESIRED_SCALE_PRE_CONSTRAINT", least], "MIN_DESIRED_SCALE_POST_MIN_SCALE"),
    fold("min", ["MIN_DESIRED_SCALE_POST_MIN_SCALE", most], "MIN_DESIRED_SCALE"),
    arithmetic(parameters.max_scale_out_percentage / 100, "mul", ACTUAL, "MAX_SCALE_OUT_PRE_FLOOR"),
    unary("floor", "MAX_SCALE_OUT_PRE_FLOOR", "MAX_SCALE_OUT_PRE_CONSTRAINT"),
    fold("max", ["MAX_SCALE_OUT_PRE_CONSTRAINT", 1], "MAX_SCALE_OUT"),
    arithmetic(ACTUAL, "add", "MAX_SCALE_OUT", "MAX_DESIRED_SCALE_PRE_CONSTRAINT"),
    fold("min", ["MAX_DESIRED_SCALE_PRE_CONSTRAINT", most], "MAX_DESIRED_SCALE_POST_MAX_SCALE"),
    fold("max", ["MAX_DESIRED_SCALE_POST_MAX_SCALE", least], "MAX_DESIRED_SCALE"),
  ];
}

/** Writes the greatest proposal of each direction, where it would change anything. */
function intents(
  scaleIn: readonly Controller[],
  scaleOut: readonly Controller[],
): readonly Draft[] {
  const intent = (
    direction: "OUT" | "IN",
    operator: string,
    controllers: readonly Controller[],
  ) => [
    fold(
      "max",
      controllers.map(({ proposal }) => proposal),
      `SCALE_${direction}_MAX`,
    ),
    decider(`SCALE_${direction}_MAX`, operator, ACTUAL, `IS_SCALE_${direction}_INTENT`),
    onlyIf(`IS_SCALE_${direction}_INTENT`, `SCALE_${direction}_MAX`, `SCALE_${direction}_INTENT`),
  ];
  return [...intent("OUT", "gt", scaleOut), ...intent("IN", "lt", scaleIn)];
}

/**
 * Holds an intent to scale out for its cooldown, unless a much greater one overrides it. An intent to scale in
 * waits for that cooldown to end, and is then held for its own.
 */
function cooldowns(parameters: Parameters): readonly Draft[] {
  const held = "SCALE_OUT_INTENT_HOLD";
  const override = 1 + parameters.cooldown_override_percentage / 100;
  return [
    arithmetic(held, "mul", override, "COOLDOWN_OVERRIDE_THRESHOLD"),
    decider("SCALE_OUT_INTENT", "gt", "COOLDOWN_OVERRIDE_THRESHOLD", "IS_COOLDOWN_OVERRIDE"),
    holder(parameters.scale_out_cooldown, "SCALE_OUT_INTENT", "IS_COOLDOWN_OVERRIDE", held),
    switcher({ by: held, on: Number.NaN, off: "SCALE_IN_INTENT" }, "SCALE_IN_ONLY_INTENT"),
    holder(parameters.scale_in_cooldown, "SCALE_IN_ONLY_INTENT", held, "SCALE_IN_ONLY_INTENT_HOLD"),
  ];
}

function desired(): readonly Draft[] {
  return [
    decider("SCALE_OUT_INTENT_HOLD", "gt", CONFIGURED, "IS_SCALE_OUT"),
    onlyIf("IS_SCALE_OUT", "SCALE_OUT_INTENT_HOLD", "SCALE_OUT"),
    decider("SCALE_IN_ONLY_INTENT_HOLD", "lt", CONFIGURED, "IS_SCALE_IN_ONLY"),
    onlyIf("IS_SCALE_IN_ONLY", "SCALE_IN_ONLY_INTENT_HOLD", "SCALE_IN_ONLY"),
    fold("first_valid", ["SCALE_OUT", "SCALE_IN_ONLY"], "DESIRED_SCALE_PRE_MAX"),
    fold("max", ["DESIRED_SCALE_PRE_MAX", "MIN_DESIRED_SCALE"], "DESIRED_SCALE_PRE_MIN"),
    fold("min", ["DESIRED_SCALE_PRE_MIN", "MAX_DESIRED_SCALE"], DESIRED),
  ];
}

/** The signal `on` while `by` is true, otherwise invalid. */
function onlyIf(by: string, on: string, output: string): Draft {
  return switcher({ by, on, off: undefined }, output);
}
