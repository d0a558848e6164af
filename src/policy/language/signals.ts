// Components that make, combine and watch signals. Their windows and phases count in evaluation ticks.

import {
  duration,
  durationOr,
  either,
  filledList,
  flag,
  list,
  map,
  message,
  number,
  part,
  required,
  text,
} from "./field.ts";
import { constantSignal, type InPort, inPort, input, output, reading } from "./ports.ts";

const FIVE_SECONDS = 5_000;
const single = part(message("Outs", { output: output() }));
const unary = part(message("Ins", { input: input() }));
const binary = part(message("Ins", { lhs: input(), rhs: input() }));

/** `max`, `min`, `and`, `or`, `first_valid`: one output out of any number of inputs. */
function fold(name: string) {
  const ins = message(`${name}.Ins`, { inputs: list(part(inPort)) });
  return message(name, { in_ports: part(ins), out_ports: single });
}
export const max = fold("Max");
export const min = fold("Min");
export const and = fold("And");
export const or = fold("Or");
export const firstValid = fold("FirstValid");

const ARITHMETIC: readonly string[] = ["add", "sub", "mul", "div", "xor", "lshift", "rshift"];

function constantOf(port: InPort | undefined): number | undefined {
  return port?.constant_signal === undefined ? undefined : reading(port.constant_signal);
}

export const arithmeticCombinator = message(
  "ArithmeticCombinator",
  {
    in_ports: binary,
    out_ports: single,
    operator: required(text({ oneOf: ARITHMETIC })),
  },
  {
    check({ operator, in_ports }, say) {
      const by = constantOf(in_ports?.rhs);
      if (operator.endsWith("shift") && by !== undefined && by < 0) {
        say(["in_ports", "rhs"], `a shift of at least 0 for ${operator}`, String(by));
      }
    },
  },
);

export const decider = message("Decider", {
  in_ports: binary,
  out_ports: single,
  operator: required(text({ oneOf: ["gt", "lt", "gte", "lte", "eq", "neq"] })),
  true_for: durationOr(0),
  false_for: durationOr(0),
});

export const switcher = message("Switcher", {
  in_ports: part(
    message("Switcher.Ins", { on_signal: input(), off_signal: input(), switch: input() }),
  ),
  out_ports: single,
});

export const inverter = message("Inverter", { in_ports: unary, out_ports: single });

const UNARY =
  "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfcinv erfinv exp exp2 expm1 floor gamma j0 j1 lgamma log log10 log1p log2 round roundtoeven sin sinh sqrt tan tanh trunc y0 y1";

export const unaryOperator = message("UnaryOperator", {
  in_ports: unary,
  out_ports: single,
  operator: required(text({ oneOf: UNARY.split(" ") })),
});

export const variable = message("Variable", {
  out_ports: single,
  constant_output: required(part(constantSignal)),
  config_key: text(),
});

export const boolVariable = message("BoolVariable", {
  out_ports: single,
  constant_output: flag(),
  config_key: text(),
});

export const extrapolator = message("Extrapolator", {
  in_ports: unary,
  out_ports: single,
  parameters: required(
    part(message("Extrapolator.Parameters", { max_extrapolation_interval: required(duration()) })),
  ),
});

export const alerterParameters = message("Alerter.Parameters", {
  alert_name: required(text()),
  severity: text({ default: "info", oneOf: ["info", "warn", "crit"] }),
  resolve_timeout: durationOr(FIVE_SECONDS),
  alert_channels: list(text()),
  labels: map(text()),
});

export const alerter = message("Alerter", {
  in_ports: part(message("Alerter.Ins", { signal: input() })),
  parameters: required(part(alerterParameters)),
});

export const integrator = message("Integrator", {
  in_ports: part(
    message("Integrator.Ins", { input: input(), reset: input(), max: input(), min: input() }),
  ),
  out_ports: single,
  initial_value: number(),
  evaluation_interval: duration({ positive: true }),
});

export const differentiator = message("Differentiator", {
  in_ports: unary,
  out_ports: single,
  window: durationOr(FIVE_SECONDS),
});

export const pulseGenerator = message("PulseGenerator", {
  out_ports: single,
  true_for: durationOr(FIVE_SECONDS),
  false_for: durationOr(FIVE_SECONDS),
});

export const holder = message("Holder", {
  in_ports: part(message("Holder.Ins", { input: input(), reset: input() })),
  out_ports: single,
  hold_for: durationOr(FIVE_SECONDS),
});

export const signalGenerator = message("SignalGenerator", {
  in_ports: part(
    message("SignalGenerator.Ins", { forward: input(), backward: input(), reset: input() }),
  ),
  out_ports: part(
    message("SignalGenerator.Outs", { output: output(), at_start: output(), at_end: output() }),
  ),
  parameters: required(
    part(
      message("SignalGenerator.Parameters", {
        steps: filledList(
          part(
            message("SignalGenerator.Parameters.Step", {
              target_output: part(constantSignal),
              duration: required(duration()),
            }),
          ),
        ),
      }),
    ),
  ),
});

const datapoint = message("PolynomialRangeFunction.Parameters.Datapoint", {
  input: number(),
  output: number(),
});

/** Start and end are needed to draw the curve at all. */
export const polynomialRangeFunction = message("PolynomialRangeFunction", {
  in_ports: unary,
  out_ports: single,
  parameters: required(
    part(
      message("PolynomialRangeFunction.Parameters", {
        start: required(part(datapoint)),
        end: required(part(datapoint)),
        degree: number(),
        clamp_to_datapoint: either("outside_range", flag()),
        clamp_to_custom_values: either(
          "outside_range",
          part(message("ClampToCustomValues", { pre_start: number(), post_end: number() })),
        ),
        continue_curve: either("outside_range", flag()),
      }),
    ),
  ),
});
