// Controllers and averages: components that follow a signal over time, and the query that measures one.

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
import { input, ins, output, outs } from "./ports.ts";

const single = (words: string) => outs(message("Outs", { output: output(words) }));

export const gradientParameters = message(
  "GradientController.Parameters",
  {
    slope: about(
      "How strongly the output answers to the ratio of signal and setpoint. Negative where a signal above its setpoint must lower the output; -1 answers in proportion.",
      required(number()),
    ),
    min_gradient: about(
      "The least factor by which one tick changes the control variable.",
      number({ default: -Number.MAX_VALUE }),
    ),
    max_gradient: about(
      "The greatest factor by which one tick changes the control variable.",
      number({ default: Number.MAX_VALUE }),
    ),
  },
  {
    check({ min_gradient, max_gradient }, say) {
      if (max_gradient < min_gradient) {
        say(["max_gradient"], `at least min_gradient (${min_gradient})`, String(max_gradient));
      }
    },
  },
);

export const gradientController = message("GradientController", {
  in_ports: ins(
    message("GradientController.Ins", {
      signal: input("What is measured."),
      setpoint: input("What the signal should be."),
      max: input("Upper bound of the output."),
      min: input("Lower bound of the output; applied after `max`."),
      control_variable: input("What is multiplied by the gradient."),
    }),
  ),
  out_ports: single("The control variable as it should be."),
  parameters: about("How it answers.", required(part(gradientParameters))),
  manual_mode: about("Hands the control variable through unchanged.", flag()),
  manual_mode_config_key: about(
    "Name under which dynamic configuration overrides `manual_mode`.",
    configKey("boolean"),
  ),
});

export const ema = message("EMA", {
  in_ports: ins(
    message("EMA.Ins", {
      input: input("What is averaged."),
      max_envelope: input("Bound above which the average is corrected downwards."),
      min_envelope: input("Bound below which the average is corrected upwards."),
    }),
  ),
  out_ports: single("The average."),
  parameters: about(
    "Windows and corrections.",
    required(
      part(
        message("EMA.Parameters", {
          ema_window: about(
            "Length of the average: the newest sample weighs 2 / (ticks + 1).",
            required(duration()),
          ),
          warmup_window: about(
            "How long valid samples are collected before the average starts, with their mean.",
            required(duration()),
          ),
          correction_factor_on_min_envelope_violation: about(
            "Factor on an average below `min_envelope`.",
            number({ default: 1, min: 1 }),
          ),
          correction_factor_on_max_envelope_violation: about(
            "Factor on an average above `max_envelope`.",
            number({ default: 1, min: 0, max: 1 }),
          ),
          valid_during_warmup: about("Writes the mean so far during warm-up too.", flag()),
        }),
      ),
    ),
  ),
});

export const sma = message("SMA", {
  in_ports: ins(message("SMA.Ins", { input: input("What is averaged.") })),
  out_ports: single("The mean of the window."),
  parameters: about(
    "The window.",
    required(
      part(
        message("SMA.Parameters", {
          sma_window: about("Length of the window, in ticks rounded up.", required(duration())),
          valid_during_warmup: about("Writes the mean of a window that is not full yet.", flag()),
        }),
      ),
    ),
  ),
});

export const pidController = message("PIDController", {
  in_ports: ins(
    message("PIDController.Ins", {
      signal: input("What is measured."),
      setpoint: input("What the signal should be."),
      min: input("Lower bound of the output."),
      max: input("Upper bound of the output."),
    }),
  ),
  out_ports: single("What the controller asks for."),
  parameters: about(
    "Gains and pace.",
    required(
      part(
        message("PIDController.Parameters", {
          kp: about("Gain on the error (setpoint - signal).", number({ min: 0 })),
          ki: about("Gain on the sum of all errors.", number({ min: 0 })),
          kd: about("Gain on the change of the signal.", number({ min: 0 })),
          evaluation_interval: about(
            "How often it acts; holds its output in between. Absent: every tick.",
            duration({ positive: true }),
          ),
          reset_after_invalid_samples: about(
            "So many invalid samples in a row clear the sum.",
            int32({ default: 4, min: 1 }),
          ),
        }),
      ),
    ),
  ),
});

const promql = message("PromQL", {
  out_ports: single("The answer; invalid until there is one, and while the query fails."),
  query_string: about(
    "Query in PromQL that gives one number: a scalar or a vector of one element.",
    text(),
  ),
  evaluation_interval: about(
    "How often it is asked, in ticks rounded up.",
    durationOr(10_000, { positive: true }),
  ),
});

export const query = message(
  "Query",
  {
    promql: about(
      "Asks the metrics server and writes the answer, seen from the next tick on.",
      arm("component", promql),
    ),
  },
  { oneOf: { component: "query" } },
);
