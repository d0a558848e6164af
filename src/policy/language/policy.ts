// The whole document: a circuit of components, and resources.

import * as control from "./control.ts";
import {
  about,
  arm,
  deprecated,
  durationOr,
  list,
  type Message,
  map,
  message,
  part,
  required,
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
  out_ports: outs(
    message("NestedSignalIngress.Outs", {
      signal: output("The signal that the port reads outside."),
    }),
  ),
  port_name: about(
    "Name of the port in the `in_ports_map` of the nested circuit.",
    required(text()),
  ),
});

const nestedSignalEgress = message("NestedSignalEgress", {
  in_ports: ins(
    message("NestedSignalEgress.Ins", {
      signal: input("The signal that the port writes outside."),
    }),
  ),
  port_name: about(
    "Name of the port in the `out_ports_map` of the nested circuit.",
    required(text()),
  ),
});

export const flowControl = message(
  "FlowControl",
  {
    rate_limiter: about(
      "Token buckets: a flow passes while its bucket has tokens. While an input is invalid, `on_failure` decides: by default every flow passes.",
      arm("component", flow.rateLimiter),
    ),
    concurrency_limiter: about(
      "Limits the number of flows in flight. While an input is invalid, `on_failure` decides: by default every flow passes.",
      arm("component", flow.concurrencyLimiter),
    ),
    sampler: about(
      "Accepts a percentage of the flows. While the input is invalid, `on_failure` decides: by default every flow passes, or none in ramp mode.",
      arm("component", flow.sampler),
    ),
    quota_scheduler: about(
      "A rate limiter with a queue: flows wait, by priority, instead of being refused.",
      arm("component", load.quotaScheduler),
    ),
    concurrency_scheduler: about(
      "A concurrency limiter with a queue, in which flows wait by priority.",
      arm("component", load.concurrencyScheduler),
    ),
    load_scheduler: about(
      "Lets a fraction of the load through and queues the rest by priority. Decides every 10 s. Fails open: while the multiplier is invalid, every flow passes.",
      arm("component", load.loadScheduler),
    ),
    aimd_load_scheduler: about(
      "Drives a load scheduler: cuts load in proportion to the overload and restores it in even steps.",
      arm("component", load.aimdLoadScheduler),
    ),
    aiad_load_scheduler: about(
      "Drives a load scheduler: cuts load and restores it in even steps.",
      arm("component", load.aiadLoadScheduler),
    ),
    range_driven_load_scheduler: about(
      "Drives a load scheduler: takes the load multiplier from a curve over the signal.",
      arm("component", load.rangeDrivenLoadScheduler),
    ),
    adaptive_load_scheduler: about(
      "The same as `aimd_load_scheduler`, with a smaller default step of recovery.",
      deprecated("aimd_load_scheduler", arm("component", load.adaptiveLoadScheduler)),
    ),
    load_ramp: about(
      "A sampler whose percentage moves through steps, forward and backward.",
      arm("component", flow.loadRamp),
    ),
  },
  { oneOf: { component: "flow_control component" } },
);

export const component = message(
  "Component",
  {
    variable: about(
      "A constant that dynamic configuration can override.",
      arm("component", signals.variable),
    ),
    bool_variable: about(
      "A boolean constant that dynamic configuration can override.",
      arm("component", signals.boolVariable),
    ),
    nested_circuit: about(
      "A circuit within the circuit. Its signals are local; ports connect them to signals outside.",
      arm("component", nestedCircuit),
    ),
    nested_signal_ingress: about(
      "Makes an in-port of the nested circuit available as a signal inside. Invalid where the port is not mapped.",
      arm("component", nestedSignalIngress),
    ),
    nested_signal_egress: about(
      "Connects a signal inside to an out-port of the nested circuit.",
      arm("component", nestedSignalEgress),
    ),
    flow_control: about(
      "Components that agents carry out on flows.",
      arm("component", flowControl),
    ),
    auto_scale: about("Components that set numbers of replicas.", arm("component", autoScale)),
    query: about("Queries for measurements.", arm("component", control.query)),
    gradient_controller: about(
      "Multiplies the control variable by (signal / setpoint)^slope, within bounds. Invalid while an input is invalid or the setpoint is 0.",
      arm("component", control.gradientController),
    ),
    ema: about(
      "Exponential moving average, after a warm-up. An invalid input repeats the last value; a whole window of invalid inputs restarts it.",
      arm("component", control.ema),
    ),
    sma: about(
      "Mean over a window of valid inputs. An invalid input repeats the last value; a whole window of invalid inputs clears it.",
      arm("component", control.sma),
    ),
    pid_controller: about(
      "PID controller with bounds and anti-windup.",
      arm("component", control.pidController),
    ),
    arithmetic_combinator: about(
      "Combines two inputs with an operator.",
      arm("component", signals.arithmeticCombinator),
    ),
    decider: about(
      "Compares two inputs. The result changes once the comparison has held for long enough.",
      arm("component", signals.decider),
    ),
    switcher: about("Selects one of two signals.", arm("component", signals.switcher)),
    unary_operator: about(
      "Applies a function to one input.",
      arm("component", signals.unaryOperator),
    ),
    extrapolator: about(
      "Repeats the last valid input while the input is invalid, for a limited time.",
      arm("component", signals.extrapolator),
    ),
    max: about(
      "The greatest input; invalid if any input is invalid.",
      arm("component", signals.max),
    ),
    min: about(
      "The smallest input; invalid if any input is invalid.",
      arm("component", signals.min),
    ),
    and: about(
      "Logical and with three values: 0 is false, any other valid input is true, an invalid one is unknown. 1 without inputs.",
      arm("component", signals.and),
    ),
    or: about(
      "Logical or with three values, as for `and`. 0 without inputs.",
      arm("component", signals.or),
    ),
    inverter: about(
      "Logical not. An invalid input stays invalid.",
      arm("component", signals.inverter),
    ),
    first_valid: about("The first valid input.", arm("component", signals.firstValid)),
    alerter: about("Raises an alert while its signal is true.", arm("component", signals.alerter)),
    integrator: about("A running sum within bounds.", arm("component", signals.integrator)),
    differentiator: about(
      "Rate of change over a window, per tick.",
      deprecated("", arm("component", signals.differentiator)),
    ),
    pulse_generator: about("Alternates between 1 and 0.", arm("component", signals.pulseGenerator)),
    holder: about(
      "Captures a valid input and holds it for a fixed time.",
      arm("component", signals.holder),
    ),
    signal_generator: about(
      "Moves along a profile of targets, forward and backward.",
      arm("component", signals.signalGenerator),
    ),
    polynomial_range_function: about(
      "A curve between two points: y0 + t^degree (y1 - y0), where t is the relative position of the input between them.",
      arm("component", signals.polynomialRangeFunction),
    ),
  },
  { oneOf: { component: "component" } },
);
export interface Component extends ValueOf<typeof component> {}

const NESTED_CIRCUIT: Message<NestedCircuit> = message("NestedCircuit", {
  in_ports_map: about(
    "In-ports by name; each needs a `nested_signal_ingress` inside.",
    map(part(inPort)),
  ),
  out_ports_map: about(
    "Out-ports by name; each needs a `nested_signal_egress` inside.",
    map(part(outPort)),
  ),
  components: about("The components inside.", list(part((): Message<Component> => component))),
});

const circuit = message("Circuit", {
  evaluation_interval: about(
    "Time between two ticks. With 0s the circuit never runs.",
    durationOr(1_000),
  ),
  components: about(
    "The components; the index in this list is part of a component's id.",
    list(part(component)),
  ),
});

export const policy = message(
  "Policy",
  {
    circuit: about("The control loop.", part(circuit)),
    resources: about(
      "What agents classify and measure, independently of the circuit.",
      part(resources),
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
