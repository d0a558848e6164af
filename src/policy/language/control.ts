// Controllers, averages, and the query that measures a signal.

import type { Warn } from "../document/warning.ts";
import {
  about,
  arm,
  configKey,
  duration,
  durationOr,
  flag,
  int32,
  message,
  number,
  part,
  required,
  text,
} from "./field.ts";
import { type InPort, input, ins, output, outs, reading } from "./ports.ts";

const single = (words: string) => outs(message("Outs", { output: output(words) }));

export const gradientParameters = message(
  "GradientController.Parameters",
  {
    slope: about(
      "Exponent of the ratio of signal to setpoint. Negative where a signal above its setpoint must lower the output; -1 responds in inverse proportion.",
      required(number()),
    ),
    min_gradient: about(
      "Smallest factor by which the control variable is multiplied.",
      number({ default: -Number.MAX_VALUE, special: "infinities" }),
    ),
    max_gradient: about(
      "Largest factor by which the control variable is multiplied.",
      number({ default: Number.MAX_VALUE, special: "infinities" }),
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
    message(
      "GradientController.Ins",
      {
        signal: input("The measured signal."),
        setpoint: input("Target value of the signal."),
        max: input("Upper bound of the output."),
        min: input("Lower bound of the output; applied after `max`."),
        control_variable: input("Value that is multiplied by the gradient."),
      },
      { check: ({ setpoint }, _, warn) => checkSetpoint(setpoint, warn) },
    ),
  ),
  out_ports: single("The new value of the control variable."),
  parameters: about("Slope and bounds of the gradient.", required(part(gradientParameters))),
  manual_mode: about("Passes the control variable through unchanged.", flag()),
  manual_mode_config_key: about(
    "Key of the dynamic configuration value that overrides `manual_mode`.",
    configKey("boolean"),
  ),
});

export const ema = message("EMA", {
  in_ports: ins(
    message("EMA.Ins", {
      input: input("The signal to average."),
      max_envelope: input("Upper envelope: an average above it is corrected."),
      min_envelope: input("Lower envelope: an average below it is corrected."),
    }),
  ),
  out_ports: single("The average."),
  parameters: about(
    "Windows and correction factors.",
    required(
      part(
        message("EMA.Parameters", {
          ema_window: about(
            "Length of the average in ticks, rounded up; the newest sample has weight 2 / (ticks + 1).",
            required(duration()),
          ),
          warmup_window: about(
            "Time for which valid samples are collected first; the average starts with their mean.",
            required(duration()),
          ),
          correction_factor_on_min_envelope_violation: about(
            "Factor applied to an average below `min_envelope`.",
            number({ default: 1, min: 1 }),
          ),
          correction_factor_on_max_envelope_violation: about(
            "Factor applied to an average above `max_envelope`.",
            number({ default: 1, min: 0, max: 1 }),
          ),
          valid_during_warmup: about("Also writes the mean so far during warm-up.", flag()),
        }),
      ),
    ),
  ),
});

export const sma = message("SMA", {
  in_ports: ins(message("SMA.Ins", { input: input("The signal to average.") })),
  out_ports: single("The mean over the window."),
  parameters: about(
    "The window.",
    required(
      part(
        message("SMA.Parameters", {
          sma_window: about("Length of the window, rounded up to ticks.", required(duration())),
          valid_during_warmup: about(
            "Also writes the mean while the window is not full yet.",
            flag(),
          ),
        }),
      ),
    ),
  ),
});

export const pidController = message("PIDController", {
  in_ports: ins(
    message("PIDController.Ins", {
      signal: input("The measured signal."),
      setpoint: input("Target value of the signal."),
      min: input("Lower bound of the output."),
      max: input("Upper bound of the output."),
    }),
  ),
  out_ports: single("The output of the controller."),
  parameters: about(
    "Gains and evaluation interval.",
    required(
      part(
        message("PIDController.Parameters", {
          kp: about("Proportional gain, on the error (setpoint - signal).", number({ min: 0 })),
          ki: about("Integral gain, on the sum of all errors.", number({ min: 0 })),
          kd: about("Derivative gain, on the change of the signal.", number({ min: 0 })),
          evaluation_interval: about(
            "Time between two evaluations; the output is held in between. Default: every tick.",
            duration({ positive: true }),
          ),
          reset_after_invalid_samples: about(
            "Number of consecutive invalid samples that reset the controller.",
            int32({ default: 4, min: 1 }),
          ),
        }),
      ),
    ),
  ),
});

const promql = message("PromQL", {
  out_ports: single(
    "The result of the last query; invalid before the first result and after a query failed.",
  ),
  query_string: about(
    "PromQL query with one number as its result: a scalar, or a vector with one element.",
    text(),
  ),
  evaluation_interval: about(
    "Time between two queries, rounded up to ticks.",
    durationOr(10_000, { positive: true }),
  ),
});

export const query = message(
  "Query",
  {
    promql: about(
      "Queries the metrics server. The result is visible from the next tick on.",
      arm("component", promql),
    ),
  },
  { oneOf: { component: "query" } },
);
