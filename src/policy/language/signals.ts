// Components that generate, combine and watch signals.

import {
  about,
  configKey,
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
import { constantSignal, type InPort, inPort, input, ins, output, outs, reading } from "./ports.ts";

const FIVE_SECONDS = 5_000;
const single = (words: string) => outs(message("Outs", { output: output(words) }));
const unary = ins(message("Ins", { input: input("Input of the function.") }));
const binary = ins(
  message("Ins", { lhs: input("Left-hand side."), rhs: input("Right-hand side.") }),
);

/** A component with any number of inputs and one output. */
function fold(name: string) {
  const inputs = about("Inputs, in order.", list(part(inPort)));
  return message(name, {
    in_ports: ins(message(`${name}.Ins`, { inputs })),
    out_ports: single("The result."),
  });
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
    out_ports: single("The result; invalid if an input is invalid, and on division by 0."),
    operator: about(
      "The operation. `xor` and shifts work on 64-bit integers.",
      required(text({ oneOf: ARITHMETIC })),
    ),
  },
  {
    check({ operator, in_ports }, refuse) {
      const by = constantOf(in_ports?.rhs);
      if (operator.endsWith("shift") && by !== undefined && by < 0) {
        refuse(["in_ports", "rhs"], `a shift of at least 0 for ${operator}`, String(by));
      }
    },
  },
);

export const decider = message("Decider", {
  in_ports: binary,
  out_ports: single("1 while the decision is true, otherwise 0."),
  operator: about(
    "The comparison. It is false while an input is invalid, whatever the operator.",
    required(text({ oneOf: ["gt", "lt", "gte", "lte", "eq", "neq"] })),
  ),
  true_for: about(
    "Time for which the comparison must hold before the decision becomes true.",
    durationOr(0),
  ),
  false_for: about(
    "Time for which the comparison must fail before the decision becomes false.",
    durationOr(0),
  ),
});

export const switcher = message("Switcher", {
  in_ports: ins(
    message("Switcher.Ins", {
      on_signal: input("Selected while the switch is valid and not 0."),
      off_signal: input("Selected while the switch is 0 or invalid."),
      switch: input("The switch."),
    }),
  ),
  out_ports: single("The selected signal."),
});

export const inverter = message("Inverter", {
  in_ports: unary,
  out_ports: single("1 for 0, and 0 for any other valid input."),
});

const UNARY =
  "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfcinv erfinv exp exp2 expm1 floor gamma j0 j1 lgamma log log10 log1p log2 round roundtoeven sin sinh sqrt tan tanh trunc y0 y1";

export const unaryOperator = message("UnaryOperator", {
  in_ports: unary,
  out_ports: single("The result; invalid where the function is undefined."),
  operator: about("The function.", required(text({ oneOf: UNARY.split(" ") }))),
});

export const variable = message("Variable", {
  out_ports: single("The value."),
  constant_output: about("The value.", required(part(constantSignal))),
  config_key: about(
    "Key of the dynamic configuration value that overrides the value.",
    configKey("constant"),
  ),
});

export const boolVariable = message("BoolVariable", {
  out_ports: single("1 for true, 0 for false."),
  constant_output: about("The value.", flag()),
  config_key: about(
    "Key of the dynamic configuration value that overrides the value.",
    configKey("boolean"),
  ),
});

export const extrapolator = message("Extrapolator", {
  in_ports: unary,
  out_ports: single("The input, or its last valid value."),
  parameters: about(
    "Limit of the extrapolation.",
    required(
      part(
        message("Extrapolator.Parameters", {
          max_extrapolation_interval: about(
            "Maximum time for which the last valid value replaces an invalid one.",
            required(duration()),
          ),
        }),
      ),
    ),
  ),
});

export const alerterParameters = message("Alerter.Parameters", {
  alert_name: about("Name of the alert.", required(text({ name: true }))),
  severity: about("Severity.", text({ default: "info", oneOf: ["info", "warn", "crit"] })),
  resolve_timeout: about(
    "The alert resolves this long after it was last raised.",
    durationOr(FIVE_SECONDS),
  ),
  alert_channels: about("Channels, for the routes of Alertmanager.", list(text())),
  labels: about("Labels of the alert; they override those that every alert has.", map(text())),
});

export const alerter = message("Alerter", {
  in_ports: ins(
    message("Alerter.Ins", { signal: input("Raises the alert while valid and not 0.") }),
  ),
  parameters: about("The alert.", required(part(alerterParameters))),
});

export const integrator = message("Integrator", {
  in_ports: ins(
    message("Integrator.Ins", {
      input: input("Added to the sum; an invalid input adds nothing."),
      reset: input("Resets the sum to 0 while valid and not 0."),
      max: input("Upper bound of the sum."),
      min: input("Lower bound of the sum; applied after `max`."),
    }),
  ),
  out_ports: single("The sum."),
  initial_value: about("Initial value of the sum.", number()),
  evaluation_interval: about(
    "Time between two additions. Default: every tick.",
    duration({ positive: true }),
  ),
});

export const differentiator = message("Differentiator", {
  in_ports: unary,
  out_ports: single("Mean change per tick over the window."),
  window: about("Length of the window.", durationOr(FIVE_SECONDS)),
});

export const pulseGenerator = message("PulseGenerator", {
  out_ports: single("Alternates between 1 and 0, starting with 1."),
  true_for: about("Duration of the 1; at least one tick.", durationOr(FIVE_SECONDS)),
  false_for: about("Duration of the 0; at least one tick.", durationOr(FIVE_SECONDS)),
});

export const holder = message("Holder", {
  in_ports: ins(
    message("Holder.Ins", {
      input: input("The signal to capture."),
      reset: input("Releases the held value while valid and not 0."),
    }),
  ),
  out_ports: single("The captured value while it is held."),
  hold_for: about("Time for which a captured value is held.", durationOr(FIVE_SECONDS)),
});

const step = message("SignalGenerator.Parameters.Step", {
  target_output: about("Output at the end of the step.", part(constantSignal)),
  duration: about("Time in which the output moves to the target.", required(duration())),
});

export const signalGenerator = message("SignalGenerator", {
  in_ports: ins(
    message("SignalGenerator.Ins", {
      forward: input("Moves towards the end while valid and not 0."),
      backward: input("Moves towards the start while valid and not 0."),
      reset: input("Returns to the start at once; takes precedence over both."),
    }),
  ),
  out_ports: outs(
    message("SignalGenerator.Outs", {
      output: output("Value of the profile at the current position."),
      at_start: output("1 at the start, otherwise 0."),
      at_end: output("1 at the end, otherwise 0."),
    }),
  ),
  parameters: about(
    "The profile.",
    required(
      part(
        message("SignalGenerator.Parameters", {
          steps: about("Steps of the profile, in order.", filledList(part(step))),
        }),
      ),
    ),
  ),
});

const datapoint = message("PolynomialRangeFunction.Parameters.Datapoint", {
  input: about("Value of the input.", number({ special: "infinities" })),
  output: about("Output at this value.", number({ special: "infinities" })),
});

const clampToCustomValues = message("PolynomialRangeFunction.Parameters.ClampToCustomValues", {
  pre_start: about("Output before the start.", number({ special: "infinities" })),
  post_end: about("Output after the end.", number({ special: "infinities" })),
});

export const polynomialRangeFunction = message("PolynomialRangeFunction", {
  in_ports: unary,
  out_ports: single("The curve at the input."),
  parameters: about(
    "The curve.",
    required(
      part(
        message("PolynomialRangeFunction.Parameters", {
          start: about("Start of the curve.", required(part(datapoint))),
          end: about("End of the curve.", required(part(datapoint))),
          degree: about("1 is a straight line, 2 a parabola, 0 a step.", number()),
          clamp_to_datapoint: about(
            "Outside the range the output is that of the nearer end.",
            either("outside_range", flag()),
          ),
          clamp_to_custom_values: about(
            "Outside the range the output has the given values.",
            either("outside_range", part(clampToCustomValues)),
          ),
          continue_curve: about(
            "Outside the range the curve continues. This is the default.",
            either("outside_range", flag()),
          ),
        }),
      ),
    ),
  ),
});
