// Components that agents carry out: limiters and samplers, schedulers and load control.

import { gradientParameters } from "./control.ts";
import {
  arm,
  deprecated,
  duration,
  durationOr,
  filledList,
  flag,
  list,
  message,
  number,
  part,
  required,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { input, output } from "./ports.ts";
import { labelMatcher, selectors } from "./selector.ts";
import { alerterParameters } from "./signals.ts";
import { statusCode } from "./status-code.ts";

const TWO_HOURS = 7_200_000;

const lazySync = message("RateLimiter.Parameters.LazySync", {
  enabled: flag(),
  num_sync: uint32({ default: 4, above: 0 }),
});

const rateLimiterParameters = message("RateLimiter.Parameters", {
  label_key: deprecated("limit_by_label_key", text()),
  limit_by_label_key: text(),
  interval: required(duration({ positive: true })),
  continuous_fill: flag(true),
  max_idle_time: durationOr(TWO_HOURS),
  lazy_sync: part(lazySync),
  delay_initial_fill: flag(),
});

const rateLimiterIns = message("RateLimiter.Ins", {
  bucket_capacity: required(input()),
  fill_amount: required(input()),
  pass_through: input(),
});

const acceptOuts = message("RateLimiter.Outs", { accept_percentage: output() });

const requestParameters = message("RateLimiter.RequestParameters", {
  tokens_label_key: text(),
  denied_response_status_code: statusCode(),
});

export const rateLimiter = message("RateLimiter", {
  in_ports: required(part(rateLimiterIns)),
  parameters: required(part(rateLimiterParameters)),
  selectors: selectors(),
  request_parameters: part(requestParameters),
  out_ports: part(acceptOuts),
});
export type RateLimiter = ValueOf<typeof rateLimiter>;

const concurrencyLimiterParameters = message("ConcurrencyLimiter.Parameters", {
  limit_by_label_key: text(),
  max_inflight_duration: required(duration({ positive: true })),
  max_idle_time: durationOr(TWO_HOURS),
});

const concurrencyLimiterIns = message("ConcurrencyLimiter.Ins", {
  max_concurrency: required(input()),
  pass_through: input(),
});

export const concurrencyLimiter = message("ConcurrencyLimiter", {
  in_ports: required(part(concurrencyLimiterIns)),
  parameters: required(part(concurrencyLimiterParameters)),
  selectors: selectors(),
  request_parameters: part(requestParameters),
  out_ports: part(acceptOuts),
});
export type ConcurrencyLimiter = ValueOf<typeof concurrencyLimiter>;

const workloadParameters = message("Scheduler.Workload.Parameters", {
  priority: number({ default: 1, above: 0 }),
  queue_timeout: duration(),
  tokens: number({ default: 1, min: 0 }),
});

const workload = message("Scheduler.Workload", {
  parameters: part(workloadParameters),
  label_matcher: required(part(labelMatcher)),
  name: text(),
});

const scheduler = message("Scheduler", {
  workloads: list(part(workload)),
  default_workload_parameters: part(workloadParameters),
  decision_deadline_margin: durationOr(10),
  tokens_label_key: text(),
  priority_label_key: text(),
  denied_response_status_code: statusCode(),
  workload_label_key: text(),
  fairness_label_key: text(),
});

export const quotaScheduler = message("QuotaScheduler", {
  in_ports: required(part(rateLimiterIns)),
  selectors: selectors(),
  rate_limiter: required(part(rateLimiterParameters)),
  scheduler: part(scheduler),
  out_ports: part(acceptOuts),
});
export type QuotaScheduler = ValueOf<typeof quotaScheduler>;

export const concurrencyScheduler = message("ConcurrencyScheduler", {
  in_ports: required(part(concurrencyLimiterIns)),
  selectors: selectors(),
  concurrency_limiter: required(part(concurrencyLimiterParameters)),
  scheduler: part(scheduler),
  out_ports: part(acceptOuts),
});
export type ConcurrencyScheduler = ValueOf<typeof concurrencyScheduler>;

const loadSchedulerParameters = message("LoadScheduler.Parameters", {
  workload_latency_based_tokens: flag(),
  scheduler: part(scheduler),
  selectors: selectors(),
});

const dryRun = { dry_run: flag(), dry_run_config_key: text() } as const;

export const loadScheduler = message("LoadScheduler", {
  in_ports: required(part(message("LoadScheduler.Ins", { load_multiplier: input() }))),
  out_ports: part(message("LoadScheduler.Outs", { observed_load_multiplier: output() })),
  parameters: required(part(loadSchedulerParameters)),
  ...dryRun,
});
export type LoadScheduler = ValueOf<typeof loadScheduler>;

const overloadIns = message("AIMDLoadScheduler.Ins", {
  signal: required(input()),
  setpoint: required(input()),
  overload_confirmation: input(),
});

const overloadOuts = message("AIMDLoadScheduler.Outs", {
  is_overload: output(),
  desired_load_multiplier: output(),
  observed_load_multiplier: output(),
});

export const aimdLoadScheduler = message("AIMDLoadScheduler", {
  in_ports: part(overloadIns),
  out_ports: part(overloadOuts),
  parameters: required(
    part(
      message("AIMDLoadScheduler.Parameters", {
        load_scheduler: required(part(loadSchedulerParameters)),
        gradient: required(part(gradientParameters)),
        max_load_multiplier: number({ default: 2, above: 0 }),
        load_multiplier_linear_increment: number({ default: 0.025, min: 0 }),
        alerter: required(part(alerterParameters)),
      }),
    ),
  ),
  ...dryRun,
});
export type AimdLoadScheduler = ValueOf<typeof aimdLoadScheduler>;

export const adaptiveLoadScheduler = message("AdaptiveLoadScheduler", {
  in_ports: required(part(overloadIns)),
  out_ports: part(overloadOuts),
  parameters: required(
    part(
      message("AdaptiveLoadScheduler.Parameters", {
        load_scheduler: required(part(loadSchedulerParameters)),
        gradient: required(part(gradientParameters)),
        max_load_multiplier: number({ default: 2 }),
        load_multiplier_linear_increment: number({ default: 0.0025 }),
        alerter: required(part(alerterParameters)),
      }),
    ),
  ),
  ...dryRun,
});
export type AdaptiveLoadScheduler = ValueOf<typeof adaptiveLoadScheduler>;

const aiadParameters = message(
  "AIADLoadScheduler.Parameters",
  {
    load_scheduler: required(part(loadSchedulerParameters)),
    min_load_multiplier: number({ min: 0 }),
    load_multiplier_linear_decrement: number({ default: 0.05, min: 0 }),
    max_load_multiplier: number({ default: 2, min: 0 }),
    load_multiplier_linear_increment: number({ default: 0.025, min: 0 }),
    alerter: required(part(alerterParameters)),
  },
  {
    check({ min_load_multiplier: min, max_load_multiplier: max }, say) {
      if (max < min) {
        say(["max_load_multiplier"], `at least min_load_multiplier (${min})`, String(max));
      }
    },
  },
);

export const aiadLoadScheduler = message("AIADLoadScheduler", {
  in_ports: part(overloadIns),
  out_ports: part(overloadOuts),
  parameters: required(part(aiadParameters)),
  ...dryRun,
  overload_condition: text({ default: "gt", oneOf: ["gt", "lt", "gte", "lte"] }),
});
export type AiadLoadScheduler = ValueOf<typeof aiadLoadScheduler>;

const datapoint = message("RangeDrivenLoadScheduler.Datapoint", {
  signal_value: number(),
  load_multiplier: number({ min: 0, max: 1 }),
});

export const rangeDrivenLoadScheduler = message("RangeDrivenLoadScheduler", {
  in_ports: part(
    message("RangeDrivenLoadScheduler.Ins", {
      signal: required(input()),
      overload_confirmation: input(),
    }),
  ),
  out_ports: part(overloadOuts),
  parameters: required(
    part(
      message("RangeDrivenLoadScheduler.Parameters", {
        load_scheduler: required(part(loadSchedulerParameters)),
        low_throttle_threshold: required(part(datapoint)),
        high_throttle_threshold: required(part(datapoint)),
        degree: required(number()),
        alerter: required(part(alerterParameters)),
      }),
    ),
  ),
  ...dryRun,
});
export type RangeDrivenLoadScheduler = ValueOf<typeof rangeDrivenLoadScheduler>;

const samplerParameters = message("Sampler.Parameters", {
  session_label_key: text(),
  selectors: selectors(),
  denied_response_status_code: statusCode(),
  ramp_mode: flag(),
});

export const sampler = message("Sampler", {
  in_ports: part(message("Sampler.Ins", { accept_percentage: input() })),
  parameters: required(part(samplerParameters)),
  pass_through_label_values: list(text()),
  pass_through_label_values_config_key: text(),
});
export type Sampler = ValueOf<typeof sampler>;

export const loadRamp = message("LoadRamp", {
  in_ports: part(message("LoadRamp.Ins", { forward: input(), backward: input(), reset: input() })),
  out_ports: part(
    message("LoadRamp.Outs", { accept_percentage: output(), at_start: output(), at_end: output() }),
  ),
  parameters: required(
    part(
      message("LoadRamp.Parameters", {
        sampler: required(part(samplerParameters)),
        steps: filledList(
          part(
            message("LoadRamp.Parameters.Step", {
              target_accept_percentage: number({ min: 0, max: 100 }),
              duration: required(duration()),
            }),
          ),
        ),
      }),
    ),
  ),
  pass_through_label_values: list(text()),
  pass_through_label_values_config_key: text(),
});
export type LoadRamp = ValueOf<typeof loadRamp>;

export const flowControl = message(
  "FlowControl",
  {
    rate_limiter: arm("component", rateLimiter),
    concurrency_limiter: arm("component", concurrencyLimiter),
    sampler: arm("component", sampler),
    quota_scheduler: arm("component", quotaScheduler, "refused"),
    concurrency_scheduler: arm("component", concurrencyScheduler, "refused"),
    load_scheduler: arm("component", loadScheduler, "refused"),
    aimd_load_scheduler: arm("component", aimdLoadScheduler, "refused"),
    aiad_load_scheduler: arm("component", aiadLoadScheduler, "refused"),
    range_driven_load_scheduler: arm("component", rangeDrivenLoadScheduler, "refused"),
    adaptive_load_scheduler: deprecated(
      "aimd_load_scheduler",
      arm("component", adaptiveLoadScheduler, "refused"),
    ),
    load_ramp: arm("component", loadRamp, "refused"),
  },
  { oneOf: { component: "flow_control component" } },
);
