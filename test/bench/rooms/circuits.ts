// Measures the cost of running circuits: a thousand of twenty components each, wired as a policy that lowers a rate
// under overload and raises it again, at one tick a second; then each kind of component by itself.
// `node --expose-gc test/bench/rooms/circuits.ts`

import { Circuit } from "#circuit/circuit.ts";
import type { CircuitSink } from "#circuit/component.ts";
import type { CircuitPlan, Configs, Kind, Leaf, Wire } from "#circuit/plan.ts";
import { createComponent } from "#circuit/registry.ts";
import { ticksOf } from "#circuit/ticks.ts";

const CIRCUITS = 1_000;
const SECONDS = 200;
const GOAL_SHARE = 0.05;
const GOAL_MB = 20;
const RUNS = 200_000;
const ROUNDS = 10;

const ABOUT = { component_id: "root.0", agent_groups: ["default"] };

const CONFIGS: Configs = {
  alerter: {
    parameters: {
      alert_name: "overload",
      severity: "info",
      resolve_timeout: 5_000,
      alert_channels: [],
      labels: new Map(),
    },
  },
  and: {},
  arithmetic_combinator: { operator: "mul" },
  bool_variable: { constant_output: false, config_key: "dry_run" },
  concurrency_limiter: ABOUT,
  concurrency_scheduler: ABOUT,
  decider: { operator: "gt", true_for: 2_000, false_for: 2_000 },
  differentiator: { window: 10_000 },
  ema: {
    parameters: {
      ema_window: 30_000,
      warmup_window: 10_000,
      correction_factor_on_min_envelope_violation: 1,
      correction_factor_on_max_envelope_violation: 1,
      valid_during_warmup: true,
    },
  },
  extrapolator: { parameters: { max_extrapolation_interval: 5_000 } },
  first_valid: {},
  gradient_controller: {
    parameters: { slope: -1, min_gradient: 0.1, max_gradient: 1 },
    manual_mode: false,
    manual_mode_config_key: "",
  },
  holder: { hold_for: 5_000 },
  integrator: { initial_value: 0, evaluation_interval: undefined },
  inverter: {},
  load_actuator: { ...ABOUT, tokens_query: "" },
  max: {},
  min: {},
  nested_signal_egress: { port_name: "out" },
  nested_signal_ingress: { port_name: "in" },
  or: {},
  pid_controller: {
    parameters: {
      kp: 1,
      ki: 0.1,
      kd: 0.1,
      evaluation_interval: undefined,
      reset_after_invalid_samples: 4,
    },
  },
  pod_scale_actuator: ABOUT,
  pod_scale_reporter: ABOUT,
  polynomial_range_function: {
    parameters: {
      start: { input: 0, output: 1 },
      end: { input: 1_000, output: 0 },
      degree: 2,
      clamp_to_datapoint: true,
      clamp_to_custom_values: undefined,
      continue_curve: undefined,
    },
  },
  promql: { query_string: "sum(rate(x[30s]))", evaluation_interval: 10_000 },
  pulse_generator: { true_for: 5_000, false_for: 5_000 },
  quota_scheduler: ABOUT,
  rate_limiter: ABOUT,
  sampler: {
    ...ABOUT,
    ramp_mode: false,
    pass_through_label_values: [],
    pass_through_label_values_config_key: "",
  },
  signal_generator: {
    parameters: { steps: [{ target_output: { value: 100 }, duration: 60_000 }] },
  },
  sma: { parameters: { sma_window: 30_000, valid_during_warmup: true } },
  switcher: {},
  unary_operator: { operator: "sqrt" },
  variable: { constant_output: { value: 20 }, config_key: "" },
};

/** Name of the output signal, kind, and input signals of each component. `~` marks a looped signal. */
const POLICY: readonly (readonly [string, Kind, Readonly<Record<string, readonly string[]>>])[] = [
  ["LATENCY", "promql", {}],
  ["BASELINE", "promql", {}],
  ["SETPOINT", "arithmetic_combinator", { lhs: ["BASELINE"], rhs: ["FACTOR"] }],
  ["FACTOR", "variable", {}],
  ["SMOOTH", "ema", { input: ["LATENCY"] }],
  ["IS_OVERLOAD", "decider", { lhs: ["SMOOTH"], rhs: ["SETPOINT"] }],
  ["NOT_OVERLOAD", "inverter", { input: ["IS_OVERLOAD"] }],
  ["DRY_RUN", "bool_variable", {}],
  ["RATE", "first_valid", { inputs: ["~NEXT", "FACTOR"] }],
  [
    "LOWER",
    "gradient_controller",
    { signal: ["SMOOTH"], setpoint: ["SETPOINT"], control_variable: ["RATE"] },
  ],
  ["CLIMB", "integrator", { input: ["FACTOR"], reset: ["IS_OVERLOAD"] }],
  ["HIGHER", "arithmetic_combinator", { lhs: ["RATE"], rhs: ["CLIMB"] }],
  ["WANTED", "switcher", { on_signal: ["LOWER"], off_signal: ["HIGHER"], switch: ["IS_OVERLOAD"] }],
  ["LEAST", "max", { inputs: ["WANTED", "FACTOR"] }],
  ["NEXT", "min", { inputs: ["LEAST", "CEILING"] }],
  ["CEILING", "variable", {}],
  ["HELD", "holder", { input: ["NEXT"] }],
  ["PASS", "or", { inputs: ["DRY_RUN", "NOT_OVERLOAD"] }],
  [
    "",
    "rate_limiter",
    { bucket_capacity: ["HELD"], fill_amount: ["NEXT"], pass_through: ["DRY_RUN"] },
  ],
  ["", "alerter", { signal: ["IS_OVERLOAD"] }],
];

function planOf(number: number): CircuitPlan {
  const names = POLICY.map(([name]) => name).filter((name) => name !== "");
  const wire = (source: string): Wire => ({
    kind: "signal",
    signal: names.indexOf(source.replace("~", "")),
    looped: source.startsWith("~"),
  });
  const leaves = POLICY.map(([name, kind, inputs], at) => ({
    id: `root.${at}`,
    kind,
    config: structuredClone(CONFIGS[kind]),
    inputs: Object.fromEntries(
      Object.entries(inputs).map(([port, from]) => [port, from.map(wire)]),
    ),
    outputs: name === "" ? {} : { output: names.indexOf(name) },
    identity: `${kind} ${number} ${at}`,
  })) as readonly Leaf[];
  const constants = POLICY.flatMap(([, kind], at) => (kind === "variable" ? at : []));
  const others = [...leaves.keys()].filter((at) => !constants.includes(at));
  return {
    policyName: `policy-${number}`,
    policyHash: "h",
    intervalMs: 1_000,
    signals: names.map((name) => ({ circuit: "root", name })),
    leaves,
    order: [...constants, ...others],
  };
}

/** Answers queries like a service whose latency oscillates, and counts decisions and alerts. */
class Listener implements CircuitSink {
  circuit: Circuit | undefined;
  readonly asked: string[] = [];
  heard = 0;

  ask({ componentId }: { readonly componentId: string }): void {
    this.asked.push(componentId);
  }

  answer(second: number): void {
    for (const id of this.asked.splice(0)) {
      const value = id === "root.0" ? 100 + 60 * Math.sin(second / 20) : 5;
      this.circuit?.answer(id, { kind: "value", value });
    }
  }

  decide(): void {
    this.heard += 1;
  }

  alert(): void {
    this.heard += 1;
  }

  fault(id: string, kind: Kind, thrown: unknown): void {
    throw new Error(`${kind} ${id} failed`, { cause: thrown });
  }

  ignoredOverride(): void {
    return;
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function megabytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 2 ** 20;
}

function circuits(): void {
  const start = megabytes();
  const plans = Array.from({ length: CIRCUITS }, (_, at) => planOf(at));
  const planned = megabytes();
  const running = plans.map((plan) => {
    const listener = new Listener();
    const circuit = new Circuit(plan, listener, undefined);
    listener.circuit = circuit;
    return { circuit, listener };
  });
  let spent = 0;
  for (let second = 1; second <= SECONDS; second++) {
    const before = process.cpuUsage();
    for (const { circuit, listener } of running) {
      circuit.tick(second * 1_000);
      listener.answer(second);
    }
    const { user, system } = process.cpuUsage(before);
    spent += (user + system) / 1_000;
  }
  const end = megabytes();
  const heard = running.reduce((sum, { listener }) => sum + listener.heard, 0);
  if (heard < CIRCUITS * 10) throw new Error("the circuits decided next to nothing");
  const perSecond = spent / SECONDS;
  const share = ((100 * perSecond) / 1_000).toFixed(2);
  print(`${CIRCUITS} circuits of ${POLICY.length} components, one tick a second, ${SECONDS} s`);
  print(
    `  core    ${share} %  (${perSecond.toFixed(1)} ms per ${CIRCUITS} ticks; goal ${100 * GOAL_SHARE} %)`,
  );
  const heap = globalThis.gc === undefined ? ", run with --expose-gc for a true figure" : "";
  print(`  memory  ${(end - planned).toFixed(1)} MB  (goal ${GOAL_MB} MB${heap})`);
  print(`          ${(planned - start).toFixed(1)} MB more for their plans`);
  if (running.length !== plans.length) throw new Error("kept alive until here");
}

function kinds(): void {
  print(`ns per tick of one component, best of ${ROUNDS} rounds:`);
  const rows = (Object.keys(CONFIGS) as Kind[]).map((kind) => [kind, cost(kind)] as const);
  rows.sort(([, left], [, right]) => right - left);
  for (const [kind, nanos] of rows) print(`  ${kind.padEnd(26)} ${nanos.toFixed(0).padStart(5)}`);
}

/** Nanoseconds per tick. Input ports read a number that changes, from the same few places. */
function cost(kind: Kind): number {
  const leaf = {
    id: "a",
    kind,
    config: CONFIGS[kind],
    inputs: {},
    outputs: {},
    identity: "a",
  } as Leaf;
  const running = createComponent(
    leaf,
    { in: () => 2, all: () => [2, 3], out: () => 4 },
    {
      id: "a",
      intervalMs: 1_000,
      ticks: (ms) => ticksOf(ms, 1_000),
      state: (begin) => begin(),
      ask: () => undefined,
      decide: () => undefined,
      alert: () => undefined,
    },
  );
  const readings = new Float64Array(8);
  let best = Number.POSITIVE_INFINITY;
  for (let number = 1; number <= RUNS; ) {
    const began = process.hrtime.bigint();
    for (const end = number + RUNS / ROUNDS; number < end; number++) {
      readings[2] = (number % 97) - 3;
      readings[3] = number % 89;
      running.run(readings, { number, timestamp: number * 1_000, intervalMs: 1_000 });
    }
    best = Math.min(best, Number(process.hrtime.bigint() - began) / (RUNS / ROUNDS));
  }
  return best;
}

circuits();
kinds();
