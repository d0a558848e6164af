// The whole document: a circuit of components, and resources.

import {
  arm,
  durationOr,
  each,
  list,
  type Message,
  map,
  message,
  part,
  text,
  type ValueOf,
} from "./field.ts";
import * as flow from "./flow.ts";
import * as load from "./load.ts";
import { type InPort, inPort, input, ins, type OutPort, outPort, output, outs } from "./ports.ts";
import { resources } from "./resources.ts";
import { autoScale } from "./scale.ts";
import * as signals from "./signals.ts";

export interface NestedCircuit {
  readonly in_ports_map: ReadonlyMap<string, InPort>;
  readonly out_ports_map: ReadonlyMap<string, OutPort>;
  readonly components: readonly Component[];
}

const nestedCircuit = (): Message<NestedCircuit> => NESTED_CIRCUIT;

const nestedSignalIngress = message("NestedSignalIngress", {
  out_ports: outs(1, { signal: output(1, "The signal that the port reads outside.") }),
  port_name: text(2).required.about(
    "Name of the port in the `in_ports_map` of the nested circuit.",
  ),
});

const nestedSignalEgress = message("NestedSignalEgress", {
  in_ports: ins(1, { signal: input(1, "The signal that the port writes outside.") }),
  port_name: text(2).required.about(
    "Name of the port in the `out_ports_map` of the nested circuit.",
  ),
});

/** One of the components that a message may be. */
const member = <V>(tag: number, of: Message<V> | (() => Message<V>)) => arm(tag, "component", of);

export const flowControl = message(
  "FlowControl",
  {
    rate_limiter: member(6, flow.rateLimiter).about(
      "Token buckets: a flow passes while its bucket has tokens. While an input is invalid, `on_failure` decides: by default every flow passes.",
    ),
    concurrency_limiter: member(14, flow.concurrencyLimiter).about(
      "Limits the number of flows in flight. While an input is invalid, `on_failure` decides: by default every flow passes.",
    ),
    sampler: member(9, flow.sampler).about(
      "Accepts a percentage of the flows. While the input is invalid, `on_failure` decides: by default every flow passes, or none in ramp mode.",
    ),
    quota_scheduler: member(1, load.quotaScheduler).about(
      "A rate limiter with a queue: flows wait, by priority, instead of being refused.",
    ),
    concurrency_scheduler: member(15, load.concurrencyScheduler).about(
      "A concurrency limiter with a queue, in which flows wait by priority.",
    ),
    load_scheduler: member(7, load.loadScheduler).about(
      "Lets a fraction of the load through and queues the rest by priority. Decides every 10 s. Fails open: while the multiplier is invalid, every flow passes.",
    ),
    aimd_load_scheduler: member(11, load.aimdLoadScheduler).about(
      "Drives a load scheduler: cuts load in proportion to the overload and restores it in even steps.",
    ),
    aiad_load_scheduler: member(13, load.aiadLoadScheduler).about(
      "Drives a load scheduler: cuts load and restores it in even steps.",
    ),
    range_driven_load_scheduler: member(12, load.rangeDrivenLoadScheduler).about(
      "Drives a load scheduler: takes the load multiplier from a curve over the signal.",
    ),
    adaptive_load_scheduler: member(8, load.adaptiveLoadScheduler)
      .deprecated("aimd_load_scheduler")
      .about("The same as `aimd_load_scheduler`, with a smaller default step of recovery."),
    load_ramp: member(10, load.loadRamp).about(
      "A sampler whose percentage moves through steps, forward and backward.",
    ),
  },
  { oneOf: { component: "flow_control component" } },
);

export const component = message(
  "Component",
  {
    variable: member(9, signals.variable).about(
      "A constant that dynamic configuration can override.",
    ),
    bool_variable: member(28, signals.boolVariable).about(
      "A boolean constant that dynamic configuration can override.",
    ),
    nested_circuit: member(24, nestedCircuit).about(
      "A circuit within the circuit. Its signals are local; ports connect them to signals outside.",
    ),
    nested_signal_ingress: member(25, nestedSignalIngress).about(
      "Makes an in-port of the nested circuit available as a signal inside. Invalid where the port is not mapped.",
    ),
    nested_signal_egress: member(26, nestedSignalEgress).about(
      "Connects a signal inside to an out-port of the nested circuit.",
    ),
    flow_control: member(101, flowControl).about("Components that agents carry out on flows."),
    auto_scale: member(102, autoScale).about("Components that set numbers of replicas."),
    query: member(100, signals.query).about("Queries for measurements."),
    gradient_controller: member(1, signals.gradientController).about(
      "Multiplies the control variable by (signal / setpoint)^slope, within bounds. Invalid while an input is invalid or the setpoint is 0.",
    ),
    ema: member(2, signals.ema).about(
      "Exponential moving average, after a warm-up. An invalid input repeats the last value; a whole window of invalid inputs restarts it.",
    ),
    sma: member(6, signals.sma).about(
      "Mean over a window of valid inputs. An invalid input repeats the last value; a whole window of invalid inputs clears it.",
    ),
    pid_controller: member(29, signals.pidController).about(
      "PID controller with bounds and anti-windup.",
    ),
    arithmetic_combinator: member(3, signals.arithmeticCombinator).about(
      "Combines two inputs with an operator.",
    ),
    decider: member(4, signals.decider).about(
      "Compares two inputs. The result changes once the comparison has held for long enough.",
    ),
    switcher: member(5, signals.switcher).about("Selects one of two signals."),
    unary_operator: member(10, signals.unaryOperator).about("Applies a function to one input."),
    extrapolator: member(11, signals.extrapolator).about(
      "Repeats the last valid input while the input is invalid, for a limited time.",
    ),
    max: member(12, signals.max).about("The greatest input; invalid if any input is invalid."),
    min: member(13, signals.min).about("The smallest input; invalid if any input is invalid."),
    and: member(19, signals.and).about(
      "Logical and with three values: 0 is false, any other valid input is true, an invalid one is unknown. 1 without inputs.",
    ),
    or: member(20, signals.or).about(
      "Logical or with three values, as for `and`. 0 without inputs.",
    ),
    inverter: member(21, signals.inverter).about("Logical not. An invalid input stays invalid."),
    first_valid: member(14, signals.firstValid).about("The first valid input."),
    alerter: member(15, signals.alerter).about("Raises an alert while its signal is true."),
    integrator: member(16, signals.integrator).about("A running sum within bounds."),
    differentiator: member(17, signals.differentiator)
      .deprecated("")
      .about("Rate of change over a window, per tick."),
    pulse_generator: member(22, signals.pulseGenerator).about("Alternates between 1 and 0."),
    holder: member(23, signals.holder).about(
      "Captures a valid input and holds it for a fixed time.",
    ),
    signal_generator: member(27, signals.signalGenerator).about(
      "Moves along a profile of targets, forward and backward.",
    ),
    polynomial_range_function: member(30, signals.polynomialRangeFunction).about(
      "A curve between two points: y0 + t^degree (y1 - y0), where t is the relative position of the input between them.",
    ),
  },
  { oneOf: { component: "component" } },
);
export interface Component extends ValueOf<typeof component> {}

const NESTED_CIRCUIT: Message<NestedCircuit> = message("NestedCircuit", {
  in_ports_map: map(1, each(inPort)).about(
    "In-ports by name; each needs a `nested_signal_ingress` inside.",
  ),
  out_ports_map: map(2, each(outPort)).about(
    "Out-ports by name; each needs a `nested_signal_egress` inside.",
  ),
  components: list(
    3,
    each((): Message<Component> => component),
  ).about("The components inside."),
});

const circuit = message("Circuit", {
  evaluation_interval: durationOr(1, 1_000).about(
    "Time between two ticks. With 0s the circuit never runs.",
  ),
  components: list(2, each(component)).about(
    "The components; the index in this list is part of a component's id.",
  ),
});

export const policy = message(
  "Policy",
  {
    circuit: part(1, circuit).about("The control loop."),
    resources: part(2, resources).about(
      "What agents classify and measure, independently of the circuit.",
    ),
  },
  {
    check(value, refuse) {
      if (value.circuit === undefined && value.resources === undefined) {
        refuse([], "circuit or resources, or both", "neither");
      }
    },
  },
);
export type Policy = ValueOf<typeof policy>;
