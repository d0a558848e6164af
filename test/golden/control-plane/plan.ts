// Creates the plan of a recorded circuit without the policy compiler, so that components are tested apart from it.

import { parseSeconds } from "#base/duration.ts";
import type { CircuitPlan, Configs, Kind, Leaf, Signal, Wire } from "#circuit/plan.ts";
import type { Json, JsonObject, RecordedCase, RecordedLeaf, RecordedPort } from "./case.ts";

/** Placeholder of the policy's hash in recordings. */
export const HASH = "HASH";

/** Reads members of a recorded configuration; an absent member has the zero value of the policy language. */
class Fields {
  readonly #value: JsonObject;

  constructor(value: Json | undefined) {
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    this.#value = isObject ? (value as JsonObject) : {};
  }

  has(key: string): boolean {
    return (this.#value[key] ?? null) !== null;
  }

  text(key: string): string {
    return String(this.#value[key] ?? "");
  }

  number(key: string): number {
    return numberOf(this.#value[key] ?? 0);
  }

  flag(key: string): boolean {
    return this.#value[key] === true;
  }

  ms(key: string): number {
    return parseSeconds(this.text(key)) ?? 0;
  }

  optionalMs(key: string): number | undefined {
    return parseSeconds(this.text(key));
  }

  inner(key: string): Fields {
    return new Fields(this.#value[key]);
  }

  list(key: string): readonly Json[] {
    const value = this.#value[key];
    return Array.isArray(value) ? value : [];
  }

  texts(key: string): readonly string[] {
    return this.list(key).map(String);
  }

  entries(): readonly (readonly [string, string])[] {
    return Object.entries(this.#value).map(([key, value]) => [key, String(value)]);
  }
}

interface Reader<K extends Kind = Kind> {
  readonly kind: K;
  readonly config: (from: Fields, leaf: RecordedLeaf, policy: string) => Configs[K];
}

const of = <K extends Kind>(kind: K, config: Reader<K>["config"]): Reader<K> => ({ kind, config });
const bare = () => ({});
const parameters = (from: Fields) => from.inner("parameters");
const constant = (from: Fields) => ({
  ...(from.has("special_value") ? { special_value: from.text("special_value") } : {}),
  ...(from.has("value") ? { value: from.number("value") } : {}),
});
const port = (from: Fields) => ({ port_name: from.text("port_name") });
const operator = (from: Fields) => ({ operator: from.text("operator") });
const datapoint = (from: Fields) => ({
  input: from.number("input"),
  output: from.number("output"),
});
const parented = (from: Fields) => ({
  component_id: from.text("parent_component_id"),
  agent_groups: groups(from),
});
const scaled = (from: Fields) => ({
  component_id: from.text("pod_scaler_component_id"),
  agent_groups: [from.text("agent_group")],
});

const READERS = {
  Alerter: of("alerter", (from) => ({
    parameters: {
      alert_name: parameters(from).text("alert_name"),
      severity: parameters(from).text("severity"),
      resolve_timeout: parameters(from).ms("resolve_timeout"),
      alert_channels: parameters(from).texts("alert_channels"),
      labels: new Map(parameters(from).inner("labels").entries()),
    },
  })),
  And: of("and", bare),
  ArithmeticCombinator: of("arithmetic_combinator", operator),
  BoolVariable: of("bool_variable", (from) => ({
    constant_output: from.flag("constant_output"),
    config_key: from.text("config_key"),
  })),
  ConcurrencyLimiter: of("concurrency_limiter", parented),
  ConcurrencyScheduler: of("concurrency_scheduler", parented),
  Decider: of("decider", (from) => ({
    ...operator(from),
    true_for: from.ms("true_for"),
    false_for: from.ms("false_for"),
  })),
  Differentiator: of("differentiator", (from) => ({ window: from.ms("window") })),
  EMA: of("ema", (from) => ({
    parameters: {
      ema_window: parameters(from).ms("ema_window"),
      warmup_window: parameters(from).ms("warmup_window"),
      correction_factor_on_min_envelope_violation: parameters(from).number(
        "correction_factor_on_min_envelope_violation",
      ),
      correction_factor_on_max_envelope_violation: parameters(from).number(
        "correction_factor_on_max_envelope_violation",
      ),
      valid_during_warmup: parameters(from).flag("valid_during_warmup"),
    },
  })),
  Extrapolator: of("extrapolator", (from) => ({
    parameters: { max_extrapolation_interval: parameters(from).ms("max_extrapolation_interval") },
  })),
  FirstValid: of("first_valid", bare),
  Gradient: of("gradient_controller", (from) => ({
    parameters: {
      slope: parameters(from).number("slope"),
      min_gradient: parameters(from).number("min_gradient"),
      max_gradient: parameters(from).number("max_gradient"),
    },
    manual_mode: from.flag("manual_mode"),
    manual_mode_config_key: from.text("manual_mode_config_key"),
  })),
  Holder: of("holder", (from) => ({ hold_for: from.ms("hold_for") })),
  Integrator: of("integrator", (from) => ({
    initial_value: from.number("initial_value"),
    evaluation_interval: from.optionalMs("evaluation_interval"),
  })),
  Inverter: of("inverter", bare),
  LoadActuator: of("load_actuator", (from, _leaf, policy) => {
    const id = from.text("load_scheduler_component_id");
    const tokens = from.flag("workload_latency_based_tokens") ? tokensQuery(policy, id) : "";
    return { component_id: id, agent_groups: groups(from), tokens_query: tokens };
  }),
  Max: of("max", bare),
  Min: of("min", bare),
  NestedSignalEgress: of("nested_signal_egress", port),
  NestedSignalIngress: of("nested_signal_ingress", port),
  Or: of("or", bare),
  PID: of("pid_controller", (from) => ({
    parameters: {
      kp: parameters(from).number("kp"),
      ki: parameters(from).number("ki"),
      kd: parameters(from).number("kd"),
      evaluation_interval: parameters(from).optionalMs("evaluation_interval"),
      reset_after_invalid_samples: parameters(from).number("reset_after_invalid_samples"),
    },
  })),
  PodScaleActuator: of("pod_scale_actuator", scaled),
  PodScaleReporter: of("pod_scale_reporter", scaled),
  PolynomialRangeFunction: of("polynomial_range_function", (from) => {
    const given = parameters(from);
    const custom = given.inner("clamp_to_custom_values");
    return {
      parameters: {
        start: datapoint(given.inner("start")),
        end: datapoint(given.inner("end")),
        degree: given.number("degree"),
        clamp_to_datapoint: given.flag("clamp_to_datapoint") ? true : undefined,
        clamp_to_custom_values: given.has("clamp_to_custom_values")
          ? { pre_start: custom.number("pre_start"), post_end: custom.number("post_end") }
          : undefined,
        continue_curve: given.flag("continue_curve") ? true : undefined,
      },
    };
  }),
  PromQL: of("promql", (from) => ({
    query_string: from.text("query_string"),
    evaluation_interval: from.ms("evaluation_interval"),
  })),
  PulseGenerator: of("pulse_generator", (from) => ({
    true_for: from.ms("true_for"),
    false_for: from.ms("false_for"),
  })),
  QuotaScheduler: of("quota_scheduler", parented),
  RateLimiter: of("rate_limiter", parented),
  SMA: of("sma", (from) => ({
    parameters: {
      sma_window: parameters(from).ms("sma_window"),
      valid_during_warmup: parameters(from).flag("valid_during_warmup"),
    },
  })),
  Sampler: of("sampler", (from, leaf) => ({
    component_id: leaf.id,
    agent_groups: groups(parameters(from)),
    ramp_mode: parameters(from).flag("ramp_mode"),
    pass_through_label_values: from.texts("pass_through_label_values"),
    pass_through_label_values_config_key: from.text("pass_through_label_values_config_key"),
  })),
  SignalGenerator: of("signal_generator", (from) => ({
    parameters: {
      steps: parameters(from)
        .list("steps")
        .map((step) => new Fields(step))
        .map((step) => ({
          target_output: constant(step.inner("target_output")),
          duration: step.ms("duration"),
        })),
    },
  })),
  Switcher: of("switcher", bare),
  UnaryOperator: of("unary_operator", operator),
  Variable: of("variable", (from) => ({
    constant_output: constant(from.inner("constant_output")),
    config_key: from.text("config_key"),
  })),
} as const;

/** Kinds of components by their names in recordings. */
export function kindOf(name: string): Kind | undefined {
  return Object.hasOwn(READERS, name) ? READERS[name as keyof typeof READERS].kind : undefined;
}

export function planOf(recorded: RecordedCase): CircuitPlan {
  const leaves = recorded.leaves ?? [];
  const signals = new Map<string, number>();
  const place = (signal: string) => {
    if (!signals.has(signal)) signals.set(signal, signals.size);
    return signals.get(signal) ?? 0;
  };
  const drafts = leaves.map((leaf) => leafOf(leaf, recorded.name, place));
  const { order, looped } = arrange(drafts);
  const interval = parseSeconds(recorded.ticks?.evaluation_interval ?? "1s") ?? 1_000;
  return {
    policyName: recorded.name,
    policyHash: HASH,
    intervalMs: interval,
    signals: [...signals.keys()].map(signalOf),
    leaves: drafts.map((leaf, at) => (looped.has(at) ? loop(leaf, looped.get(at)) : leaf)),
    order,
  };
}

function leafOf(leaf: RecordedLeaf, policy: string, place: (signal: string) => number): Leaf {
  if (!Object.hasOwn(READERS, leaf.name)) throw new Error(`unknown component ${leaf.name}`);
  const reader: Reader = READERS[leaf.name as keyof typeof READERS];
  const wire = ({ signal, const: value, looped }: RecordedPort): Wire => {
    if (signal === undefined) return { kind: "constant", value: numberOf(value ?? 0) };
    return { kind: "signal", signal: place(signal), looped: looped === true };
  };
  const inputs = Object.entries(leaf.in ?? {}).map(
    ([name, ports]) => [name, ports?.map(wire) ?? unconnected(name)] as const,
  );
  const outputs = Object.entries(leaf.out ?? {}).map(([name, ports]) => {
    const signal = ports?.[0]?.signal;
    return [name, signal === undefined ? undefined : place(signal)] as const;
  });
  return {
    id: leaf.id,
    kind: reader.kind,
    config: reader.config(new Fields(leaf.config), leaf, policy),
    inputs: Object.fromEntries(inputs),
    outputs: Object.fromEntries(outputs),
    identity: leaf.id,
  } as Leaf;
}

/** Ports with one wire are lists as well; `inputs` is the name of every port with several. */
function unconnected(port: string): readonly Wire[] {
  return port === "inputs" ? [] : [{ kind: "open" }];
}

/**
 * Orders leaves so that each one runs after those that it reads, in flattened order otherwise. When all remaining
 * leaves wait for each other, the first one reads the missing signals from the tick before.
 */
function arrange(leaves: readonly Leaf[]) {
  const producers = new Map<number, number>();
  for (const [at, { outputs }] of leaves.entries()) {
    for (const signal of Object.values(outputs))
      if (signal !== undefined) producers.set(signal, at);
  }
  const lacking = leaves.map(({ inputs }) => {
    const wires = Object.values(inputs).flat();
    const now = wires.flatMap((each) =>
      each.kind === "signal" && !each.looped ? each.signal : [],
    );
    return new Set(now.filter((signal) => producers.has(signal)));
  });
  const order: number[] = [];
  const looped = new Map<number, ReadonlySet<number>>();
  const left = new Set(leaves.keys());
  while (left.size > 0) {
    const ready = [...left].find((at) => lacking[at]?.size === 0);
    const next = ready ?? Math.min(...left);
    if (ready === undefined) {
      looped.set(next, new Set(lacking[next]));
      lacking[next]?.clear();
      continue;
    }
    left.delete(next);
    order.push(next);
    for (const signal of Object.values(leaves[next]?.outputs ?? {})) {
      if (signal !== undefined) for (const wanted of lacking) wanted.delete(signal);
    }
  }
  return { order, looped };
}

function loop(leaf: Leaf, signals: ReadonlySet<number> = new Set()): Leaf {
  const inputs = Object.entries(leaf.inputs).map(([name, wires]) => [
    name,
    wires.map((wire) =>
      wire.kind === "signal" && signals.has(wire.signal) ? { ...wire, looped: true } : wire,
    ),
  ]);
  return { ...leaf, inputs: Object.fromEntries(inputs) };
}

function signalOf(text: string): Signal {
  const slash = text.indexOf("/");
  return { circuit: text.slice(0, slash), name: text.slice(slash + 1) };
}

function groups(from: Fields): readonly string[] {
  const all = from.list("selectors").map((each) => new Fields(each).text("agent_group"));
  return [...new Set(all)];
}

function tokensQuery(policy: string, id: string): string {
  const labels = `policy_name="${policy}",policy_hash="${HASH}",component_id="${id}"`;
  const part = (what: string) =>
    `sum by (workload_index) (increase(workload_latency_ms_${what}{${labels}}[30m]))`;
  return `${part("sum")} / ${part("count")}`;
}

/** A number in the form of protojson. */
export function numberOf(value: Json): number {
  if (value === null) return Number.NaN;
  const text = String(value).replace(/Inf$/, "Infinity");
  return Number(text);
}
