// One component of each kind, with a configuration under which all that it remembers shows in its outputs. A new kind
// does not compile until it has a row here.

import type { Configs, Kind } from "#circuit/plan.ts";

/** A source by its number, or a constant. `S0` … `S3` are measurements that a test scripts. */
type Input = "S0" | "S1" | "S2" | "S3" | number;

export interface Sample<K extends Kind> {
  readonly config: Configs[K];
  readonly inputs?: Readonly<Record<string, Input | readonly Input[]>>;
  readonly outputs?: readonly string[];
}

const output = ["output"];
const actuating = { component_id: "root.9", agent_groups: ["default"] };
const limiting = { ...actuating, on_failure: "last_known" } as const;
const inputs = { inputs: ["S0", "S1"] } as const;
const average = {
  correction_factor_on_min_envelope_violation: 1.5,
  correction_factor_on_max_envelope_violation: 0.5,
  valid_during_warmup: true,
};
const bucket = { bucket_capacity: "S0", fill_amount: "S1", pass_through: 0 } as const;

export const SAMPLES: { readonly [K in Kind]: Sample<K> } = {
  alerter: {
    config: {
      parameters: {
        alert_name: "a",
        severity: "info",
        resolve_timeout: 5_000,
        alert_channels: [],
        labels: new Map(),
      },
    },
    inputs: { signal: "S0" },
  },
  and: { config: {}, inputs, outputs: output },
  arithmetic_combinator: {
    config: { operator: "div" },
    inputs: { lhs: "S0", rhs: "S1" },
    outputs: output,
  },
  bool_variable: { config: { constant_output: true, config_key: "b" }, outputs: output },
  concurrency_limiter: { config: limiting, inputs: { max_concurrency: "S0", pass_through: 0 } },
  concurrency_scheduler: { config: limiting, inputs: { max_concurrency: "S0", pass_through: 0 } },
  decider: {
    config: { operator: "gt", true_for: 2_000, false_for: 1_000 },
    inputs: { lhs: "S0", rhs: "S1" },
    outputs: output,
  },
  differentiator: { config: { window: 4_000 }, inputs: { input: "S0" }, outputs: output },
  ema: {
    config: { parameters: { ema_window: 3_000, warmup_window: 3_000, ...average } },
    inputs: { input: "S0", max_envelope: "S1", min_envelope: -5 },
    outputs: output,
  },
  extrapolator: {
    config: { parameters: { max_extrapolation_interval: 2_000 } },
    inputs: { input: "S0" },
    outputs: output,
  },
  first_valid: { config: {}, inputs, outputs: output },
  gradient_controller: {
    config: {
      parameters: { slope: -1, min_gradient: 0.5, max_gradient: 2 },
      manual_mode: false,
      manual_mode_config_key: "m",
    },
    inputs: { signal: "S0", setpoint: "S1", control_variable: "S2", max: 5, min: -5 },
    outputs: output,
  },
  holder: { config: { hold_for: 3_000 }, inputs: { input: "S0", reset: 0 }, outputs: output },
  integrator: {
    config: { initial_value: 1, evaluation_interval: 2_000 },
    inputs: { input: "S0", reset: 0, max: 1_000, min: -1_000 },
    outputs: output,
  },
  inverter: { config: {}, inputs: { input: "S0" }, outputs: output },
  load_actuator: {
    config: { ...actuating, tokens_query: "tokens" },
    inputs: { load_multiplier: "S0" },
  },
  max: { config: {}, inputs, outputs: output },
  min: { config: {}, inputs, outputs: output },
  nested_signal_egress: {
    config: { port_name: "p" },
    inputs: { signal: "S0" },
    outputs: ["signal"],
  },
  nested_signal_ingress: {
    config: { port_name: "p" },
    inputs: { signal: "S0" },
    outputs: ["signal"],
  },
  or: { config: {}, inputs, outputs: output },
  pid_controller: {
    config: {
      parameters: {
        kp: 0.5,
        ki: 0.25,
        kd: 0.125,
        evaluation_interval: 2_000,
        reset_after_invalid_samples: 2,
      },
    },
    inputs: { signal: "S0", setpoint: "S1", max: 100, min: -100 },
    outputs: output,
  },
  pod_scale_actuator: { config: actuating, inputs: { replicas: "S0" } },
  pod_scale_reporter: { config: actuating, outputs: ["actual_replicas", "configured_replicas"] },
  polynomial_range_function: {
    config: {
      parameters: {
        start: { input: 0, output: 0 },
        end: { input: 5, output: 1 },
        degree: 2,
        clamp_to_datapoint: true,
        clamp_to_custom_values: undefined,
        continue_curve: undefined,
      },
    },
    inputs: { input: "S0" },
    outputs: output,
  },
  promql: { config: { query_string: "q", evaluation_interval: 3_000 }, outputs: output },
  pulse_generator: { config: { true_for: 3_000, false_for: 2_000 }, outputs: output },
  quota_scheduler: { config: limiting, inputs: bucket },
  rate_limiter: { config: limiting, inputs: bucket },
  sampler: {
    config: {
      ...limiting,
      ramp_mode: true,
      pass_through_label_values: ["a"],
      pass_through_label_values_config_key: "s",
    },
    inputs: { accept_percentage: "S0" },
  },
  signal_generator: {
    config: {
      parameters: {
        steps: [
          { target_output: { value: 1 }, duration: 0 },
          { target_output: { value: 9 }, duration: 30_000 },
        ],
      },
    },
    inputs: { forward: 1, backward: 0, reset: 0 },
    outputs: ["output", "at_start", "at_end"],
  },
  sma: {
    config: { parameters: { sma_window: 4_000, valid_during_warmup: true } },
    inputs: { input: "S0" },
    outputs: output,
  },
  switcher: {
    config: {},
    inputs: { on_signal: "S0", off_signal: "S1", switch: "S2" },
    outputs: output,
  },
  unary_operator: { config: { operator: "abs" }, inputs: { input: "S0" }, outputs: output },
  variable: { config: { constant_output: { value: 3 }, config_key: "v" }, outputs: output },
};
