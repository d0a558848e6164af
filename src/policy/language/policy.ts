// The whole document: a circuit of components, and resources beside it. `standing` says for every kind of
// component what this version does with it.

import * as control from "./control.ts";
import {
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
import { flowControl } from "./flow.ts";
import { type InPort, inPort, input, type OutPort, outPort, output } from "./ports.ts";
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
  out_ports: part(message("NestedSignalIngress.Outs", { signal: output() })),
  port_name: required(text()),
});

const nestedSignalEgress = message("NestedSignalEgress", {
  in_ports: part(message("NestedSignalEgress.Ins", { signal: input() })),
  port_name: required(text()),
});

export const component = message(
  "Component",
  {
    variable: arm("component", signals.variable),
    bool_variable: arm("component", signals.boolVariable),
    nested_circuit: arm("component", nestedCircuit),
    nested_signal_ingress: arm("component", nestedSignalIngress),
    nested_signal_egress: arm("component", nestedSignalEgress),
    flow_control: arm("component", flowControl),
    auto_scale: arm("component", autoScale),
    query: arm("component", control.query),
    gradient_controller: arm("component", control.gradientController, "observing"),
    ema: arm("component", control.ema, "observing"),
    sma: arm("component", control.sma, "observing"),
    pid_controller: arm("component", control.pidController, "observing"),
    arithmetic_combinator: arm("component", signals.arithmeticCombinator, "observing"),
    decider: arm("component", signals.decider, "observing"),
    switcher: arm("component", signals.switcher, "observing"),
    unary_operator: arm("component", signals.unaryOperator, "observing"),
    extrapolator: arm("component", signals.extrapolator, "observing"),
    max: arm("component", signals.max, "observing"),
    min: arm("component", signals.min, "observing"),
    and: arm("component", signals.and, "observing"),
    or: arm("component", signals.or, "observing"),
    inverter: arm("component", signals.inverter, "observing"),
    first_valid: arm("component", signals.firstValid, "observing"),
    alerter: arm("component", signals.alerter, "observing"),
    integrator: arm("component", signals.integrator, "observing"),
    differentiator: deprecated("", arm("component", signals.differentiator, "observing")),
    pulse_generator: arm("component", signals.pulseGenerator, "observing"),
    holder: arm("component", signals.holder, "observing"),
    signal_generator: arm("component", signals.signalGenerator, "observing"),
    polynomial_range_function: arm("component", signals.polynomialRangeFunction, "observing"),
  },
  { oneOf: { component: "component" } },
);
export interface Component extends ValueOf<typeof component> {}

const NESTED_CIRCUIT: Message<NestedCircuit> = message("NestedCircuit", {
  in_ports_map: map(part(inPort)),
  out_ports_map: map(part(outPort)),
  components: list(part((): Message<Component> => component)),
});

const circuit = message("Circuit", {
  evaluation_interval: durationOr(1_000),
  components: list(part(component)),
});

export const policy = message(
  "Policy",
  { circuit: part(circuit), resources: part(resources) },
  {
    check(value, say) {
      if (value.circuit === undefined && value.resources === undefined) {
        say([], "circuit or resources, or both", "neither");
      }
    },
  },
);
export type Policy = ValueOf<typeof policy>;
