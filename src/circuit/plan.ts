// A compiled control loop as data: `policy` compiles documents to it, and `Circuit` runs it. Configurations of
// components are the language's own messages without their ports (same names, durations in milliseconds).

import type { FailureMode } from "#base/failure-mode.ts";

/** The value that an in-port reads. An open wire reads invalid. */
export type Wire =
  /** `signal` is an index of `CircuitPlan.signals`. A looped wire reads the signal of the previous tick. */
  | { readonly kind: "signal"; readonly signal: number; readonly looped: boolean }
  /** NaN is an invalid constant. */
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "open" };

/** A signal, identified by its name and its circuit: `root`, or the id of a nested circuit (`root.2.4`). */
export interface Signal {
  readonly circuit: string;
  readonly name: string;
}

export const SPECIAL_VALUES: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};

export interface ConstantConfig {
  readonly special_value?: string | undefined;
  readonly value?: number | undefined;
}

/** The value of a constant; NaN is invalid. An empty constant is 0. */
export function constantOf({ special_value, value }: ConstantConfig): number {
  if (special_value === undefined || special_value === "") return value ?? 0;
  return SPECIAL_VALUES[special_value] ?? Number.NaN;
}

export interface AlerterParameters {
  readonly alert_name: string;
  readonly severity: string;
  readonly resolve_timeout: number;
  readonly alert_channels: readonly string[];
  readonly labels: ReadonlyMap<string, string>;
}

export interface DatapointConfig {
  readonly input: number;
  readonly output: number;
}

/** Configuration of a component whose decisions go to agents, one copy to each group. */
interface Actuating {
  /** The id under which configuration and decisions are stored: that of the composite, not of the leaf inside. */
  readonly component_id: string;
  readonly agent_groups: readonly string[];
}

/** Configuration of a component that lets flows pass or refuses them. */
interface Limiting extends Actuating {
  /** Decides while a signal that it needs is invalid; absent for the default of its kind. */
  readonly on_failure?: FailureMode | undefined;
}

/** Configuration of leaves by kind, with the field names of the language where it has them. */
export interface Configs {
  readonly gradient_controller: {
    readonly parameters: {
      readonly slope: number;
      readonly min_gradient: number;
      readonly max_gradient: number;
    };
    readonly manual_mode: boolean;
    readonly manual_mode_config_key: string;
  };
  readonly ema: {
    readonly parameters: {
      readonly ema_window: number;
      readonly warmup_window: number;
      readonly correction_factor_on_min_envelope_violation: number;
      readonly correction_factor_on_max_envelope_violation: number;
      readonly valid_during_warmup: boolean;
    };
  };
  readonly sma: {
    readonly parameters: { readonly sma_window: number; readonly valid_during_warmup: boolean };
  };
  readonly arithmetic_combinator: { readonly operator: string };
  readonly decider: {
    readonly operator: string;
    readonly true_for: number;
    readonly false_for: number;
  };
  readonly switcher: Record<never, never>;
  readonly variable: { readonly constant_output: ConstantConfig; readonly config_key: string };
  readonly bool_variable: { readonly constant_output: boolean; readonly config_key: string };
  readonly unary_operator: { readonly operator: string };
  readonly extrapolator: { readonly parameters: { readonly max_extrapolation_interval: number } };
  readonly max: Record<never, never>;
  readonly min: Record<never, never>;
  readonly and: Record<never, never>;
  readonly or: Record<never, never>;
  readonly inverter: Record<never, never>;
  readonly first_valid: Record<never, never>;
  readonly alerter: { readonly parameters: AlerterParameters };
  readonly integrator: {
    readonly initial_value: number;
    /** Undefined: every tick. */
    readonly evaluation_interval: number | undefined;
  };
  readonly differentiator: { readonly window: number };
  readonly pulse_generator: { readonly true_for: number; readonly false_for: number };
  readonly holder: { readonly hold_for: number };
  readonly nested_signal_ingress: { readonly port_name: string };
  readonly nested_signal_egress: { readonly port_name: string };
  readonly signal_generator: {
    readonly parameters: {
      readonly steps: readonly {
        readonly target_output: ConstantConfig | undefined;
        readonly duration: number;
      }[];
    };
  };
  readonly pid_controller: {
    readonly parameters: {
      readonly kp: number;
      readonly ki: number;
      readonly kd: number;
      readonly evaluation_interval: number | undefined;
      readonly reset_after_invalid_samples: number;
    };
  };
  readonly polynomial_range_function: {
    readonly parameters: {
      readonly start: DatapointConfig;
      readonly end: DatapointConfig;
      readonly degree: number;
      readonly clamp_to_datapoint: boolean | undefined;
      readonly clamp_to_custom_values:
        | { readonly pre_start: number; readonly post_end: number }
        | undefined;
      readonly continue_curve: boolean | undefined;
    };
  };
  readonly promql: { readonly query_string: string; readonly evaluation_interval: number };
  /** Leaf of a load scheduler. `tokens_query` is "" unless the cost in tokens follows from latency. */
  readonly load_actuator: Actuating & { readonly tokens_query: string };
  readonly rate_limiter: Limiting;
  readonly quota_scheduler: Limiting;
  readonly concurrency_limiter: Limiting;
  readonly concurrency_scheduler: Limiting;
  readonly sampler: Limiting & {
    readonly ramp_mode: boolean;
    readonly pass_through_label_values: readonly string[];
    readonly pass_through_label_values_config_key: string;
  };
  readonly pod_scale_actuator: Actuating;
  readonly pod_scale_reporter: Actuating;
}

export type Kind = keyof Configs;

/** A component after expansion of all composites. Ports have the language's names. */
export type Leaf<K extends Kind = Kind> = {
  readonly [Each in K]: {
    /** `root.3.4`: the indexes from the root circuit down. */
    readonly id: string;
    readonly kind: Each;
    readonly config: Configs[Each];
    /** A single port has one wire, a list port any number. */
    readonly inputs: Readonly<Record<string, readonly Wire[]>>;
    /** Indexes of `CircuitPlan.signals`; undefined is unconnected. */
    readonly outputs: Readonly<Record<string, number | undefined>>;
    /**
     * Identifies the component across versions of a policy, independently of its position: kind, configuration
     * and wiring by name. State is kept where this is unchanged. Unique within a plan.
     */
    readonly identity: string;
  };
}[K];

export interface CircuitPlan {
  readonly policyName: string;
  readonly policyHash: string;
  /** Milliseconds between ticks; above 0. */
  readonly intervalMs: number;
  readonly signals: readonly Signal[];
  /** In document order, composites expanded depth first. */
  readonly leaves: readonly Leaf[];
  /** Indexes of `leaves` in the order in which they run: every wire that is not looped is written before it is read. */
  readonly order: readonly number[];
}
