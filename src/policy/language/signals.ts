// Components that generate, combine, control and watch signals, and the query that measures one.

import type { Warn } from "../document/warning.ts";
import {
  arm,
  configKey,
  duration,
  durationOr,
  each,
  filledList,
  flag,
  int32,
  list,
  map,
  message,
  nested,
  number,
  part,
  text,
} from "./field.ts";
import {
  constantSignal,
  type InPort,
  inPort,
  input,
  ins,
  output,
  outs,
  reading,
  single,
} from "./ports.ts";

const FIVE_SECONDS = 5_000;
const unary = (tag: number) => ins(tag, { input: input(1, "Input of the function.") });
const binary = (tag: number) =>
  ins(tag, { lhs: input(1, "Left-hand side."), rhs: input(2, "Right-hand side.") });

/** A component with any number of inputs and one output. */
function fold(name: string) {
  const inputs = list(1, each(inPort)).about("Inputs, in order.");
  return message(name, { in_ports: ins(1, { inputs }), out_ports: single(2, "The result.") });
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
    in_ports: binary(1),
    out_ports: single(2, "The result; invalid if an input is invalid, and on division by 0."),
    operator: text(3, { oneOf: ARITHMETIC }).required.about(
      "The operation. `xor` and shifts work on 64-bit integers.",
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
  in_ports: binary(1),
  out_ports: single(2, "1 while the decision is true, otherwise 0."),
  operator: text(3, { oneOf: ["gt", "lt", "gte", "lte", "eq", "neq"] }).required.about(
    "The comparison. It is false while an input is invalid, whatever the operator.",
  ),
  true_for: durationOr(4, 0).about(
    "Time for which the comparison must hold before the decision becomes true.",
  ),
  false_for: durationOr(5, 0).about(
    "Time for which the comparison must fail before the decision becomes false.",
  ),
});

export const switcher = message("Switcher", {
  in_ports: ins(1, {
    on_signal: input(1, "Selected while the switch is valid and not 0."),
    off_signal: input(2, "Selected while the switch is 0 or invalid."),
    switch: input(3, "The switch."),
  }),
  out_ports: single(2, "The selected signal."),
});

export const inverter = message("Inverter", {
  in_ports: unary(1),
  out_ports: single(2, "1 for 0, and 0 for any other valid input."),
});

const UNARY =
  "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfcinv erfinv exp exp2 expm1 floor gamma j0 j1 lgamma log log10 log1p log2 round roundtoeven sin sinh sqrt tan tanh trunc y0 y1";

export const unaryOperator = message("UnaryOperator", {
  in_ports: unary(1),
  out_ports: single(2, "The result; invalid where the function is undefined."),
  operator: text(3, { oneOf: UNARY.split(" ") }).required.about("The function."),
});

export const variable = message("Variable", {
  out_ports: single(1, "The value."),
  constant_output: part(2, constantSignal).required.about("The value."),
  config_key: configKey(3, "constant", "the value"),
});

export const boolVariable = message("BoolVariable", {
  out_ports: single(1, "1 for true, 0 for false."),
  constant_output: flag(2).about("The value."),
  config_key: configKey(3, "boolean", "the value"),
});

export const extrapolator = message("Extrapolator", {
  in_ports: unary(1),
  out_ports: single(2, "The input, or its last valid value."),
  parameters: nested(3, "Parameters", {
    max_extrapolation_interval: duration(1).required.about(
      "Maximum time for which the last valid value replaces an invalid one.",
    ),
  }).required.about("Limit of the extrapolation."),
});

export const alerterParameters = message("Alerter.Parameters", {
  alert_name: text(1, { name: true }).required.about("Name of the alert."),
  severity: text(2, { default: "info", oneOf: ["info", "warn", "crit"] }).about("Severity."),
  resolve_timeout: durationOr(3, FIVE_SECONDS).about(
    "The alert resolves this long after it was last raised.",
  ),
  alert_channels: list(4, text()).about("Channels, for the routes of Alertmanager."),
  labels: map(5, text()).about("Labels of the alert; they override those that every alert has."),
});

export const alerter = message("Alerter", {
  in_ports: ins(1, { signal: input(1, "Raises the alert while valid and not 0.") }),
  parameters: part(2, alerterParameters).required.about("The alert."),
});

export const integrator = message("Integrator", {
  in_ports: ins(1, {
    input: input(1, "Added to the sum; an invalid input adds nothing."),
    reset: input(2, "Resets the sum to 0 while valid and not 0."),
    max: input(3, "Upper bound of the sum."),
    min: input(4, "Lower bound of the sum; applied after `max`."),
  }),
  out_ports: single(2, "The sum."),
  initial_value: number(3).about("Initial value of the sum."),
  evaluation_interval: duration(4, { positive: true }).about(
    "Time between two additions. Default: every tick.",
  ),
});

export const differentiator = message("Differentiator", {
  in_ports: unary(1),
  out_ports: single(2, "Mean change per tick over the window."),
  window: durationOr(3, FIVE_SECONDS).about("Length of the window."),
});

export const pulseGenerator = message("PulseGenerator", {
  out_ports: single(1, "Alternates between 1 and 0, starting with 1."),
  true_for: durationOr(2, FIVE_SECONDS).about("Duration of the 1; at least one tick."),
  false_for: durationOr(3, FIVE_SECONDS).about("Duration of the 0; at least one tick."),
});

export const holder = message("Holder", {
  in_ports: ins(1, {
    input: input(1, "The signal to capture."),
    reset: input(2, "Releases the held value while valid and not 0."),
  }),
  out_ports: single(2, "The captured value while it is held."),
  hold_for: durationOr(3, FIVE_SECONDS).about("Time for which a captured value is held."),
});

const step = message("SignalGenerator.Parameters.Step", {
  target_output: part(1, constantSignal).about("Output at the end of the step."),
  duration: duration(2).required.about("Time in which the output moves to the target."),
});

export const signalGenerator = message("SignalGenerator", {
  in_ports: ins(1, {
    forward: input(1, "Moves towards the end while valid and not 0."),
    backward: input(2, "Moves towards the start while valid and not 0."),
    reset: input(3, "Returns to the start at once; takes precedence over both."),
  }),
  out_ports: outs(2, {
    output: output(1, "Value of the profile at the current position."),
    at_start: output(2, "1 at the start, otherwise 0."),
    at_end: output(3, "1 at the end, otherwise 0."),
  }),
  parameters: nested(3, "Parameters", {
    steps: filledList(1, each(step)).about("Steps of the profile, in order."),
  }).required.about("The profile."),
});

const datapoint = message("PolynomialRangeFunction.Parameters.Datapoint", {
  input: number(1, { special: "infinities" }).about("Value of the input."),
  output: number(2, { special: "infinities" }).about("Output at this value."),
});

const clampToCustomValues = message("PolynomialRangeFunction.Parameters.ClampToCustomValues", {
  pre_start: number(1, { special: "infinities" }).about("Output before the start."),
  post_end: number(2, { special: "infinities" }).about("Output after the end."),
});

export const polynomialRangeFunction = message("PolynomialRangeFunction", {
  in_ports: unary(1),
  out_ports: single(2, "The curve at the input."),
  parameters: nested(3, "Parameters", {
    start: part(1, datapoint).required.about("Start of the curve."),
    end: part(2, datapoint).required.about("End of the curve."),
    degree: number(3).about("1 is a straight line, 2 a parabola, 0 a step."),
    clamp_to_datapoint: flag(4)
      .oneOf("outside_range")
      .about("Outside the range the output is that of the nearer end."),
    clamp_to_custom_values: part(5, clampToCustomValues)
      .oneOf("outside_range")
      .about("Outside the range the output has the given values."),
    continue_curve: flag(6)
      .oneOf("outside_range")
      .about("Outside the range the curve continues. This is the default."),
  }).required.about("The curve."),
});

/** Switches that keep the decisions of a component from taking effect. */
export const dryRun = (tag: number, effect: string) =>
  ({
    dry_run: flag(tag).about(`Makes and reports decisions, but ${effect}.`),
    dry_run_config_key: configKey(tag + 1, "boolean", "`dry_run`"),
  }) as const;

export const gradientParameters = message(
  "GradientController.Parameters",
  {
    slope: number(1).required.about(
      "Exponent of the ratio of signal to setpoint. Negative where a signal above its setpoint must lower the output; -1 responds in inverse proportion.",
    ),
    min_gradient: number(2, { default: -Number.MAX_VALUE, special: "infinities" }).about(
      "Smallest factor by which the control variable is multiplied.",
    ),
    max_gradient: number(3, { default: Number.MAX_VALUE, special: "infinities" }).about(
      "Largest factor by which the control variable is multiplied.",
    ),
  },
  {
    check({ min_gradient, max_gradient }, refuse) {
      if (max_gradient < min_gradient) {
        refuse(["max_gradient"], `at least min_gradient (${min_gradient})`, String(max_gradient));
      }
    },
  },
);

/** Warns of a setpoint by which nothing can be divided. */
export function checkSetpoint(setpoint: InPort | undefined, warn: Warn): void {
  const constant = setpoint?.constant_signal;
  if (constant === undefined || reading(constant) !== 0) return;
  warn(
    "unusual_value",
    ["setpoint"],
    "0, which no signal can be divided by: the output is never valid",
  );
}

export const gradientController = message("GradientController", {
  in_ports: ins(
    1,
    {
      signal: input(1, "The measured signal."),
      setpoint: input(2, "Target value of the signal."),
      max: input(3, "Upper bound of the output."),
      min: input(4, "Lower bound of the output; applied after `max`."),
      control_variable: input(5, "Value that is multiplied by the gradient."),
    },
    { check: ({ setpoint }, _, warn) => checkSetpoint(setpoint, warn) },
  ),
  out_ports: single(2, "The new value of the control variable."),
  parameters: part(3, gradientParameters).required.about("Slope and bounds of the gradient."),
  manual_mode: flag(4).about("Passes the control variable through unchanged."),
  manual_mode_config_key: configKey(5, "boolean", "`manual_mode`"),
});

export const ema = message("EMA", {
  in_ports: ins(1, {
    input: input(1, "The signal to average."),
    max_envelope: input(2, "Upper envelope: an average above it is corrected."),
    min_envelope: input(3, "Lower envelope: an average below it is corrected."),
  }),
  out_ports: single(2, "The average."),
  parameters: nested(3, "Parameters", {
    ema_window: duration(1).required.about(
      "Length of the average in ticks, rounded up; the newest sample has weight 2 / (ticks + 1).",
    ),
    warmup_window: duration(2).required.about(
      "Time for which valid samples are collected first; the average starts with their mean.",
    ),
    correction_factor_on_min_envelope_violation: number(3, { default: 1, min: 1 }).about(
      "Factor applied to an average below `min_envelope`.",
    ),
    correction_factor_on_max_envelope_violation: number(4, { default: 1, min: 0, max: 1 }).about(
      "Factor applied to an average above `max_envelope`.",
    ),
    valid_during_warmup: flag(5).about("Also writes the mean so far during warm-up."),
  }).required.about("Windows and correction factors."),
});

export const sma = message("SMA", {
  in_ports: ins(1, { input: input(1, "The signal to average.") }),
  out_ports: single(2, "The mean over the window."),
  parameters: nested(3, "Parameters", {
    sma_window: duration(1).required.about("Length of the window, rounded up to ticks."),
    valid_during_warmup: flag(2).about("Also writes the mean while the window is not full yet."),
  }).required.about("The window."),
});

export const pidController = message("PIDController", {
  in_ports: ins(1, {
    signal: input(1, "The measured signal."),
    setpoint: input(2, "Target value of the signal."),
    min: input(3, "Lower bound of the output."),
    max: input(4, "Upper bound of the output."),
  }),
  out_ports: single(2, "The output of the controller."),
  parameters: nested(3, "Parameters", {
    kp: number(1, { min: 0 }).about("Proportional gain, on the error (setpoint - signal)."),
    ki: number(2, { min: 0 }).about("Integral gain, on the sum of all errors."),
    kd: number(3, { min: 0 }).about("Derivative gain, on the change of the signal."),
    evaluation_interval: duration(4, { positive: true }).about(
      "Time between two evaluations; the output is held in between. Default: every tick.",
    ),
    reset_after_invalid_samples: int32(5, { default: 4, min: 1 }).about(
      "Number of consecutive invalid samples that reset the controller.",
    ),
  }).required.about("Gains and evaluation interval."),
});

const promql = message("PromQL", {
  out_ports: single(
    1,
    "The result of the last query; invalid before the first result and after a query failed.",
  ),
  query_string: text(2).about(
    "PromQL query with one number as its result: a scalar, or a vector with one element.",
  ),
  evaluation_interval: durationOr(3, 10_000, { positive: true }).about(
    "Time between two queries, rounded up to ticks.",
  ),
});

export const query = message(
  "Query",
  {
    promql: arm(1, "component", promql).about(
      "Queries the metrics server. The result is visible from the next tick on.",
    ),
  },
  { oneOf: { component: "query" } },
);
