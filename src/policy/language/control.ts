// Controllers and averages: components that follow a signal over time, and the query that measures one.

import {
  arm,
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
import { input, output } from "./ports.ts";

const single = part(message("Outs", { output: output() }));

export const gradientParameters = message(
  "GradientController.Parameters",
  {
    slope: required(number()),
    min_gradient: number({ default: -Number.MAX_VALUE }),
    max_gradient: number({ default: Number.MAX_VALUE }),
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
  in_ports: part(
    message("GradientController.Ins", {
      signal: input(),
      setpoint: input(),
      max: input(),
      min: input(),
      control_variable: input(),
    }),
  ),
  out_ports: single,
  parameters: required(part(gradientParameters)),
  manual_mode: flag(),
  manual_mode_config_key: text(),
});

export const ema = message("EMA", {
  in_ports: part(
    message("EMA.Ins", { input: input(), max_envelope: input(), min_envelope: input() }),
  ),
  out_ports: single,
  parameters: required(
    part(
      message("EMA.Parameters", {
        ema_window: required(duration()),
        warmup_window: required(duration()),
        correction_factor_on_min_envelope_violation: number({ default: 1, min: 1 }),
        correction_factor_on_max_envelope_violation: number({ default: 1, min: 0, max: 1 }),
        valid_during_warmup: flag(),
      }),
    ),
  ),
});

export const sma = message("SMA", {
  in_ports: part(message("SMA.Ins", { input: input() })),
  out_ports: single,
  parameters: required(
    part(
      message("SMA.Parameters", {
        sma_window: required(duration()),
        valid_during_warmup: flag(),
      }),
    ),
  ),
});

export const pidController = message("PIDController", {
  in_ports: part(
    message("PIDController.Ins", {
      signal: input(),
      setpoint: input(),
      min: input(),
      max: input(),
    }),
  ),
  out_ports: single,
  parameters: required(
    part(
      message("PIDController.Parameters", {
        kp: number({ min: 0 }),
        ki: number({ min: 0 }),
        kd: number({ min: 0 }),
        evaluation_interval: duration({ positive: true }),
        reset_after_invalid_samples: int32({ default: 4, min: 1 }),
      }),
    ),
  ),
});

export const query = message(
  "Query",
  {
    promql: arm(
      "component",
      message("PromQL", {
        out_ports: single,
        query_string: text(),
        evaluation_interval: durationOr(10_000, { positive: true }),
      }),
      "observing",
    ),
  },
  { oneOf: { component: "query" } },
);
