// Load schedulers, and the strategies that drive them.

import type { Configs } from "#circuit/plan.ts";
import {
  type AdaptiveLoadScheduler,
  type AiadLoadScheduler,
  type AimdLoadScheduler,
  type LoadScheduler,
  loadScheduler as message,
  type RangeDrivenLoadScheduler,
} from "../../language/load.ts";
import { groupsOf } from "../../language/selector.ts";
import { agentConfig } from "../agents/config.ts";
import {
  alerter,
  arithmetic,
  composite,
  type Draft,
  decider,
  dryRun,
  egress,
  fold,
  ingress,
  integrator,
  inverter,
  labelText,
  leaf,
  measured,
  type Owner,
  switcher,
} from "../draft.ts";

export const LOAD_SCHEDULERS = {
  load_scheduler: loadScheduler,
  aimd_load_scheduler: (component: AimdLoadScheduler, owner: Owner) =>
    aimd("aimd_load_scheduler", component, owner),
  adaptive_load_scheduler: (component: AdaptiveLoadScheduler, owner: Owner) =>
    aimd("adaptive_load_scheduler", component, owner),
  aiad_load_scheduler: aiad,
  range_driven_load_scheduler: rangeDriven,
} as const;

const OVERLOAD_PORTS = {
  signal: "SIGNAL",
  setpoint: "SETPOINT",
  overload_confirmation: "OVERLOAD_CONFIRMATION",
} as const;

/** Time between two steps of a strategy. */
const STEP_MS = 10_000;

const DESIRED = "DESIRED_LOAD_MULTIPLIER";
const OBSERVED = "OBSERVED_LOAD_MULTIPLIER";

/** Decides the load multiplier for agents, or none in a dry run, and measures the share of load that they let through. */
function loadScheduler(component: LoadScheduler, owner: Owner): Draft {
  const { workload_latency_based_tokens: byLatency, selectors } = component.parameters;
  return composite("load_scheduler", component, (id) => {
    const labels = labelText({
      policy_name: owner.policyName,
      policy_hash: owner.policyHash,
      component_id: id,
    });
    return [
      dryRun(component, "DRY_RUN"),
      switcher({ by: "DRY_RUN", on: Number.NaN, off: "LOAD_MULTIPLIER_INPUT" }, "LOAD_MULTIPLIER"),
      () => {
        const agent_groups = groupsOf(selectors);
        const tokens_query = byLatency ? tokensQuery(labels) : "";
        return {
          is: "leaf",
          kind: "load_actuator",
          config: { component_id: id, agent_groups, tokens_query },
          ins: { load_multiplier: "LOAD_MULTIPLIER" },
          outs: {},
          same: { byLatency, agent_groups },
          about: selectors,
          agentConfig: agentConfig("load_scheduler", id, agent_groups, message, component),
        };
      },
      measured("observed", observedQuery(labels), "OBSERVED_LOAD_MULTIPLIER"),
      ingress("load_multiplier", "LOAD_MULTIPLIER_INPUT"),
      egress("observed_load_multiplier", "OBSERVED_LOAD_MULTIPLIER"),
    ];
  });
}

function observedQuery(labels: string): string {
  const accepted = `sum(increase(accepted_tokens_total{${labels}}[30s]))`;
  const rejected = `sum(increase(rejected_tokens_total{${labels}}[30s]))`;
  return `${accepted} / (${accepted} + ${rejected})`;
}

/** Mean latency of each workload, in milliseconds. */
function tokensQuery(labels: string): string {
  const total = (metric: string) => `sum by (workload_index) (increase(${metric}{${labels}}[30m]))`;
  return `${total("workload_latency_ms_sum")} / ${total("workload_latency_ms_count")}`;
}

interface StrategyComponent
  extends Pick<LoadScheduler, "dry_run" | "dry_run_config_key">,
    Pick<Parameters<typeof composite>[1], "in_ports" | "out_ports"> {
  readonly parameters: {
    readonly load_scheduler: LoadScheduler["parameters"];
    readonly alerter: Configs["alerter"]["parameters"];
  };
}

interface Strategy {
  readonly kind: string;
  /** Label `type` of the alert. */
  readonly alertType: string;
  /** Signal that lets everything pass while it is true. */
  readonly passThrough: string;
  readonly parts: readonly Draft[];
  /** In-ports in order, each with its signal inside. */
  readonly ports: Readonly<Record<string, string>>;
}

/**
 * The common part of the strategies: an overload counts only once it is confirmed, pass-through makes the multiplier
 * invalid so that everything passes, and an alert is raised while load is cut.
 *
 * A strategy writes the signals OVERLOAD_FROM_STRATEGY and LOAD_MULTIPLIER_FROM_STRATEGY; it may read IS_OVERLOAD and
 * OBSERVED_LOAD_MULTIPLIER.
 */
function strategy(component: StrategyComponent, owner: Owner, options: Strategy): Draft {
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

/**
 * Lowers the load multiplier by a constant with every step of an overload, starting below 1, and raises it by a constant
 * with every step without one.
 */
function aiad(component: AiadLoadScheduler, owner: Owner): Draft {
  const {
    min_load_multiplier: least,
    max_load_multiplier: most,
    load_multiplier_linear_decrement: decrement,
    load_multiplier_linear_increment: increment,
  } = component.parameters;
  return strategy(component, owner, {
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
  });
}

/**
 * Multiplies the load by a gradient during an overload. Recovery adds an offset, which grows with every step, to the
 * share that is let through, until the maximum is reached and everything passes. The deprecated adaptive load scheduler
 * differs only in its default increment.
 */
function aimd(
  kind: "aimd_load_scheduler" | "adaptive_load_scheduler",
  component: AimdLoadScheduler | AdaptiveLoadScheduler,
  owner: Owner,
): Draft {
  const { gradient, max_load_multiplier: most, ...rest } = component.parameters;
  return strategy(component, owner, {
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
  });
}

/** Takes the load multiplier from a curve over the signal. An overload that is not confirmed lets everything pass (D-5). */
function rangeDriven(component: RangeDrivenLoadScheduler, owner: Owner): Draft {
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
  return strategy(component, owner, {
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
  });
}
