// Components that make, combine and watch signals. Their windows and phases count in evaluation ticks.

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
const unary = ins(message("Ins", { input: input("What it is applied to.") }));
const binary = ins(
  message("Ins", { lhs: input("Left-hand side."), rhs: input("Right-hand side.") }),
);

/** `max`, `min`, `and`, `or`, `first_valid`: one output out of any number of inputs. */
function fold(name: string) {
  const inputs = about("Signals that it takes together.", list(part(inPort)));
  return message(name, {
    in_ports: ins(message(`${name}.Ins`, { inputs })),
    out_ports: single("The one result."),
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
    out_ports: single("The result; invalid where a side is, and on division by 0."),
    operator: about(
      "The operation. `xor` and shifts work on 64-bit integers.",
      required(text({ oneOf: ARITHMETIC })),
    ),
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
  out_ports: single("1 while decided true, else 0."),
  operator: about(
    "The comparison. With an invalid side it is false, whatever the operator.",
    required(text({ oneOf: ["gt", "lt", "gte", "lte", "eq", "neq"] })),
  ),
  true_for: about("How long it must hold before it counts as true.", durationOr(0)),
  false_for: about("How long it must fail before it counts as false.", durationOr(0)),
});

export const switcher = message("Switcher", {
  in_ports: ins(
    message("Switcher.Ins", {
      on_signal: input("Handed on while the switch is valid and not 0."),
      off_signal: input("Handed on while the switch is 0 or invalid."),
      switch: input("Chooses."),
    }),
  ),
  out_ports: single("The chosen signal."),
});

export const inverter = message("Inverter", {
  in_ports: unary,
  out_ports: single("1 for 0, and 0 for any other valid reading."),
});

const UNARY =
  "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfcinv erfinv exp exp2 expm1 floor gamma j0 j1 lgamma log log10 log1p log2 round roundtoeven sin sinh sqrt tan tanh trunc y0 y1";

export const unaryOperator = message("UnaryOperator", {
  in_ports: unary,
  out_ports: single("The result; invalid where the function is not defined."),
  operator: about("The function.", required(text({ oneOf: UNARY.split(" ") }))),
});

export const variable = message("Variable", {
  out_ports: single("The value."),
  constant_output: about("The value.", required(part(constantSignal))),
  config_key: about(
    "Name under which dynamic configuration overrides the value.",
    configKey("constant"),
  ),
});

export const boolVariable = message("BoolVariable", {
  out_ports: single("1 for true, 0 for false."),
  constant_output: about("The value.", flag()),
  config_key: about(
    "Name under which dynamic configuration overrides the value.",
    configKey("boolean"),
  ),
});

export const extrapolator = message("Extrapolator", {
  in_ports: unary,
  out_ports: single("The input, or its last valid reading."),
  parameters: about(
    "How far.",
    required(
      part(
        message("Extrapolator.Parameters", {
          max_extrapolation_interval: about(
            "How long the last valid reading stands in for an invalid one.",
            required(duration()),
          ),
        }),
      ),
    ),
  ),
});

export const alerterParameters = message("Alerter.Parameters", {
  alert_name: about("Name of the alert.", required(text())),
  severity: about("How bad it is.", text({ default: "info", oneOf: ["info", "warn", "crit"] })),
  resolve_timeout: about(
    "The alert resolves this long after it was last raised.",
    durationOr(FIVE_SECONDS),
  ),
  alert_channels: about("Where it should go, for the alert manager's routes.", list(text())),
  labels: about("Labels of the alert; they win over those that every alert has.", map(text())),
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
      input: input("Added to the sum; an invalid reading adds nothing."),
      reset: input("Sets the sum to 0 while valid and not 0."),
      max: input("Upper bound of the sum."),
      min: input("Lower bound of the sum; applied after `max`."),
    }),
  ),
  out_ports: single("The sum."),
  initial_value: about("The sum at the start.", number()),
  evaluation_interval: about(
    "How often it adds. Absent: every tick.",
    duration({ positive: true }),
  ),
});

export const differentiator = message("Differentiator", {
  in_ports: unary,
  out_ports: single("The change for each tick of the window."),
  window: about("Over how long the change is taken.", durationOr(FIVE_SECONDS)),
});

export const pulseGenerator = message("PulseGenerator", {
  out_ports: single("1 and 0 in turn, 1 first."),
  true_for: about("How long it writes 1; at least one tick.", durationOr(FIVE_SECONDS)),
  false_for: about("How long it writes 0; at least one tick.", durationOr(FIVE_SECONDS)),
});

export const holder = message("Holder", {
  in_ports: ins(
    message("Holder.Ins", {
      input: input("What is captured."),
      reset: input("Lets go while valid and not 0."),
    }),
  ),
  out_ports: single("The captured reading while it is held."),
  hold_for: about("How long a captured reading is held.", durationOr(FIVE_SECONDS)),
});

const step = message("SignalGenerator.Parameters.Step", {
  target_output: about("What the output is at the end of the step.", part(constantSignal)),
  duration: about("How long the output takes to get there.", required(duration())),
});

export const signalGenerator = message("SignalGenerator", {
  in_ports: ins(
    message("SignalGenerator.Ins", {
      forward: input("Moves towards the end while valid and not 0."),
      backward: input("Moves towards the start while valid and not 0."),
      reset: input("Goes to the start at once; wins over both."),
    }),
  ),
  out_ports: outs(
    message("SignalGenerator.Outs", {
      output: output("The profile at the place where it stands."),
      at_start: output("1 at the start, else 0."),
      at_end: output("1 at the end, else 0."),
    }),
  ),
  parameters: about(
    "The profile.",
    required(
      part(
        message("SignalGenerator.Parameters", {
          steps: about("Targets, one after the other.", filledList(part(step))),
        }),
      ),
    ),
  ),
});

const datapoint = message("PolynomialRangeFunction.Parameters.Datapoint", {
  input: about("Where on the input.", number()),
  output: about("The output there.", number()),
});

const clampToCustomValues = message("PolynomialRangeFunction.Parameters.ClampToCustomValues", {
  pre_start: about("Output before the start.", number()),
  post_end: about("Output after the end.", number()),
});

/** Start and end are needed to draw the curve at all. */
export const polynomialRangeFunction = message("PolynomialRangeFunction", {
  in_ports: unary,
  out_ports: single("The curve at the input."),
  parameters: about(
    "The curve.",
    required(
      part(
        message("PolynomialRangeFunction.Parameters", {
          start: about("Where the curve begins.", required(part(datapoint))),
          end: about("Where the curve ends.", required(part(datapoint))),
          degree: about("1 is a straight line, 2 a parabola, 0 a step.", number()),
          clamp_to_datapoint: about(
            "Outside the range the output stays at the nearer end.",
            either("outside_range", flag()),
          ),
          clamp_to_custom_values: about(
            "Outside the range the output has values of its own.",
            either("outside_range", part(clampToCustomValues)),
          ),
          continue_curve: about(
            "Outside the range the curve goes on, as it does when nothing is said.",
            either("outside_range", flag()),
          ),
        }),
      ),
    ),
  ),
});
