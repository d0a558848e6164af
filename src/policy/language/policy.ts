// The whole document: a circuit of components, and resources beside it.

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
  published,
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
    message("NestedSignalIngress.Outs", { signal: output("What the port reads outside.") }),
  ),
  port_name: about("Name in the `in_ports_map` around it.", required(text())),
});

const nestedSignalEgress = message("NestedSignalEgress", {
  in_ports: ins(
    message("NestedSignalEgress.Ins", { signal: input("What the port writes outside.") }),
  ),
  port_name: about("Name in the `out_ports_map` around it.", required(text())),
});

export const flowControl = message(
  "FlowControl",
  {
    rate_limiter: about(
      "Token buckets: a flow passes while its bucket holds tokens. Invalid numbers let everything pass.",
      arm("component", flow.rateLimiter),
    ),
    concurrency_limiter: about(
      "Bounds how many flows are in flight at once. An invalid number lets everything pass.",
      arm("component", flow.concurrencyLimiter),
    ),
    sampler: about(
      "Accepts a share of the flows. Without a valid number all, in ramp mode none.",
      arm("component", flow.sampler),
    ),
    quota_scheduler: about(
      "A rate limiter in front of which flows wait by priority instead of being refused.",
      published(arm("component", load.quotaScheduler)),
    ),
    concurrency_scheduler: about(
      "A concurrency limiter in front of which flows wait by priority.",
      published(arm("component", load.concurrencyScheduler)),
    ),
    load_scheduler: about(
      "Lets a share of the load through and queues the rest by priority. An invalid multiplier lets everything pass. Decides every 10 s.",
      published(arm("component", load.loadScheduler)),
    ),
    aimd_load_scheduler: about(
      "Cuts load in proportion to the overload and gives it back in even steps.",
      published(arm("component", load.aimdLoadScheduler)),
    ),
    aiad_load_scheduler: about(
      "Cuts load and gives it back in even steps.",
      published(arm("component", load.aiadLoadScheduler)),
    ),
    range_driven_load_scheduler: about(
      "Draws the load multiplier from a curve over the signal.",
      published(arm("component", load.rangeDrivenLoadScheduler)),
    ),
    adaptive_load_scheduler: about(
      "The same as `aimd_load_scheduler`, with a smaller step of recovery.",
      deprecated("aimd_load_scheduler", published(arm("component", load.adaptiveLoadScheduler))),
    ),
    load_ramp: about(
      "A sampler that climbs through steps, holds, and falls back.",
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
      "A switch that dynamic configuration can override.",
      arm("component", signals.boolVariable),
    ),
    nested_circuit: about(
      "A circuit within the circuit. Its signals are its own; ports join them to those outside.",
      arm("component", nestedCircuit),
    ),
    nested_signal_ingress: about(
      "Brings a port of the nested circuit in. Reads invalid where the port is not mapped.",
      arm("component", nestedSignalIngress),
    ),
    nested_signal_egress: about(
      "Takes a signal of the nested circuit out.",
      arm("component", nestedSignalEgress),
    ),
    flow_control: about("What agents carry out on flows.", arm("component", flowControl)),
    auto_scale: about("What agents carry out on replicas.", arm("component", autoScale)),
    query: about("What is measured.", arm("component", control.query)),
    gradient_controller: about(
      "Multiplies the control variable by (signal / setpoint)^slope, within bounds. Invalid where an input is, or the setpoint is 0.",
      arm("component", control.gradientController),
    ),
    ema: about(
      "Exponential moving average, after a warm-up. Gaps repeat the last value; as many in a row as the window is long start over.",
      arm("component", control.ema),
    ),
    sma: about(
      "Mean over a window of valid samples. Gaps repeat the last value; a window of them clears it.",
      arm("component", control.sma),
    ),
    pid_controller: about(
      "Proportional, integral and derivative answer to the error, within bounds that the integral respects.",
      arm("component", control.pidController),
    ),
    arithmetic_combinator: about(
      "Two readings by an operator.",
      arm("component", signals.arithmeticCombinator),
    ),
    decider: about(
      "Compares two readings; the answer changes once the comparison held for long enough.",
      arm("component", signals.decider),
    ),
    switcher: about("Hands one of two signals on.", arm("component", signals.switcher)),
    unary_operator: about("A function of one reading.", arm("component", signals.unaryOperator)),
    extrapolator: about(
      "Bridges gaps with the last valid reading, for a while.",
      arm("component", signals.extrapolator),
    ),
    max: about("The greatest; invalid where any input is.", arm("component", signals.max)),
    min: about("The least; invalid where any input is.", arm("component", signals.min)),
    and: about(
      "Three-valued: 0 is false, another valid reading true, an invalid one unknown. Without inputs 1.",
      arm("component", signals.and),
    ),
    or: about("Three-valued, as `and`. Without inputs 0.", arm("component", signals.or)),
    inverter: about("Not. Invalid stays invalid.", arm("component", signals.inverter)),
    first_valid: about("The first input that is valid.", arm("component", signals.firstValid)),
    alerter: about("Raises an alert while its signal is true.", arm("component", signals.alerter)),
    integrator: about("A running sum within bounds.", arm("component", signals.integrator)),
    differentiator: about(
      "Change over a window.",
      deprecated("", arm("component", signals.differentiator)),
    ),
    pulse_generator: about("1 and 0 in turn.", arm("component", signals.pulseGenerator)),
    holder: about(
      "Captures a valid reading and holds it for a while.",
      arm("component", signals.holder),
    ),
    signal_generator: about(
      "Walks along a profile of targets, forward and backward.",
      arm("component", signals.signalGenerator),
    ),
    polynomial_range_function: about(
      "A curve between two points: y0 + t^degree (y1 - y0), t being the place of the input between them.",
      arm("component", signals.polynomialRangeFunction),
    ),
  },
  { oneOf: { component: "component" } },
);
export interface Component extends ValueOf<typeof component> {}

const NESTED_CIRCUIT: Message<NestedCircuit> = message("NestedCircuit", {
  in_ports_map: about(
    "Ports by name; each needs a nested_signal_ingress inside.",
    map(part(inPort)),
  ),
  out_ports_map: about(
    "Ports by name; each needs a nested_signal_egress inside.",
    map(part(outPort)),
  ),
  components: about("The components inside.", list(part((): Message<Component> => component))),
});

const circuit = message("Circuit", {
  evaluation_interval: about("Time between two ticks; 0s never runs.", durationOr(1_000)),
  components: about("The components, each known by its place in this list.", list(part(component))),
});

export const policy = message(
  "Policy",
  {
    circuit: about("The control loop.", part(circuit)),
    resources: about(
      "What agents classify and measure, whatever the circuit does.",
      part(resources),
    ),
  },
  {
    check(value, say) {
      if (value.circuit === undefined && value.resources === undefined) {
        say([], "circuit or resources, or both", "neither");
      }
    },
  },
);
export type Policy = ValueOf<typeof policy>;
