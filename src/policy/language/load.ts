// Components with queues and those that steer load: schedulers, and the strategies that drive one.

import { gradientParameters } from "./control.ts";
import {
  about,
  configKey,
  duration,
  durationOr,
  flag,
  list,
  message,
  number,
  part,
  required,
  text,
  type ValueOf,
} from "./field.ts";
import {
  acceptOuts,
  concurrencyLimiterIns,
  concurrencyLimiterParameters,
  rateLimiterIns,
  rateLimiterParameters,
} from "./flow.ts";
import { input, ins, output, outs } from "./ports.ts";
import { labelMatcher, selectors } from "./selector.ts";
import { alerterParameters } from "./signals.ts";
import { statusCode } from "./status-code.ts";

const workloadParameters = message("Scheduler.Workload.Parameters", {
  priority: about(
    "Share of capacity under load, against that of other workloads.",
    number({ default: 1, above: 0 }),
  ),
  queue_timeout: about("How long a flow waits at most; absent: as its caller says.", duration()),
  tokens: about("Tokens that a flow takes.", number({ default: 1, min: 0 })),
});

const workload = message("Scheduler.Workload", {
  parameters: about("What its flows weigh.", part(workloadParameters)),
  label_matcher: about("Which flows belong to it.", required(part(labelMatcher))),
  name: about("Name, for metrics.", text()),
});

export const scheduler = message("Scheduler", {
  workloads: about(
    "Kinds of flows, asked in order; the first that matches counts.",
    list(part(workload)),
  ),
  default_workload_parameters: about(
    "For flows that belong to no workload.",
    part(workloadParameters),
  ),
  decision_deadline_margin: about(
    "Time that a queued flow keeps in hand before its caller's deadline.",
    durationOr(10),
  ),
  tokens_label_key: about("Label that says how many tokens a flow takes.", text()),
  priority_label_key: about("Label that says the priority of a flow.", text()),
  denied_response_status_code: statusCode("ServiceUnavailable"),
  workload_label_key: about("Label that names the workload of a flow.", text()),
  fairness_label_key: about("Label whose values share a workload fairly.", text()),
});
const scheduling = () => about("How flows wait and who goes first.", part(scheduler));

export const quotaScheduler = message("QuotaScheduler", {
  in_ports: required(ins(rateLimiterIns)),
  selectors: selectors(),
  rate_limiter: about("How its buckets work.", required(part(rateLimiterParameters))),
  scheduler: scheduling(),
  out_ports: outs(acceptOuts),
});
export type QuotaScheduler = ValueOf<typeof quotaScheduler>;

export const concurrencyScheduler = message("ConcurrencyScheduler", {
  in_ports: required(ins(concurrencyLimiterIns)),
  selectors: selectors(),
  concurrency_limiter: about("How it counts.", required(part(concurrencyLimiterParameters))),
  scheduler: scheduling(),
  out_ports: outs(acceptOuts),
});
export type ConcurrencyScheduler = ValueOf<typeof concurrencyScheduler>;

const loadSchedulerParameters = message("LoadScheduler.Parameters", {
  workload_latency_based_tokens: about(
    "Flows of a workload take as many tokens as they take milliseconds on average.",
    flag(),
  ),
  scheduler: scheduling(),
  selectors: selectors(),
});

const dryRun = () =>
  ({
    dry_run: about("Decides and reports, but lets every flow pass.", flag()),
    dry_run_config_key: about(
      "Name under which dynamic configuration overrides `dry_run`.",
      configKey("boolean"),
    ),
  }) as const;

export const loadScheduler = message("LoadScheduler", {
  in_ports: required(
    ins(
      message("LoadScheduler.Ins", {
        load_multiplier: input("Share of the incoming tokens that is let through."),
      }),
    ),
  ),
  out_ports: outs(
    message("LoadScheduler.Outs", {
      observed_load_multiplier: output("Share that was really let through lately."),
    }),
  ),
  parameters: about("Which flows, and how they wait.", required(part(loadSchedulerParameters))),
  ...dryRun(),
});
export type LoadScheduler = ValueOf<typeof loadScheduler>;

const confirmation = () =>
  input("0 holds an overload back; unconnected or invalid counts as confirmed.");

const overloadIns = message("AIMDLoadScheduler.Ins", {
  signal: required(input("What shows an overload.")),
  setpoint: required(input("From where on it is one.")),
  overload_confirmation: confirmation(),
});

const overloadOuts = () =>
  outs(
    message("AIMDLoadScheduler.Outs", {
      is_overload: output("1 during an overload, else 0."),
      desired_load_multiplier: output("Share of load that the strategy wants let through."),
      observed_load_multiplier: output("Share that was really let through lately."),
    }),
  );

const inner = () =>
  about("The load scheduler that is steered.", required(part(loadSchedulerParameters)));
const gradient = () =>
  about("How the load is cut during an overload.", required(part(gradientParameters)));
const throttlingAlert = () =>
  about("Alert that is raised while load is cut.", required(part(alerterParameters)));
const maxMultiplier = (field = number({ default: 2, min: 0 })) =>
  about("From this multiplier on everything passes again.", field);
const increment = (field = number({ default: 0.025, min: 0 })) =>
  about("What recovery adds every 10 s.", field);

export const aimdLoadScheduler = message("AIMDLoadScheduler", {
  in_ports: ins(overloadIns),
  out_ports: overloadOuts(),
  parameters: about(
    "The strategy.",
    required(
      part(
        message("AIMDLoadScheduler.Parameters", {
          load_scheduler: inner(),
          gradient: gradient(),
          max_load_multiplier: maxMultiplier(number({ default: 2, above: 0 })),
          load_multiplier_linear_increment: increment(),
          alerter: throttlingAlert(),
        }),
      ),
    ),
  ),
  ...dryRun(),
});
export type AimdLoadScheduler = ValueOf<typeof aimdLoadScheduler>;

export const adaptiveLoadScheduler = message("AdaptiveLoadScheduler", {
  in_ports: required(ins(overloadIns)),
  out_ports: overloadOuts(),
  parameters: about(
    "The strategy.",
    required(
      part(
        message("AdaptiveLoadScheduler.Parameters", {
          load_scheduler: inner(),
          gradient: gradient(),
          max_load_multiplier: maxMultiplier(number({ default: 2 })),
          load_multiplier_linear_increment: increment(number({ default: 0.0025 })),
          alerter: throttlingAlert(),
        }),
      ),
    ),
  ),
  ...dryRun(),
});
export type AdaptiveLoadScheduler = ValueOf<typeof adaptiveLoadScheduler>;

const aiadParameters = message(
  "AIADLoadScheduler.Parameters",
  {
    load_scheduler: inner(),
    min_load_multiplier: about("Never cut below this.", number({ min: 0 })),
    load_multiplier_linear_decrement: about(
      "What an overload takes away every 10 s.",
      number({ default: 0.05, min: 0 }),
    ),
    max_load_multiplier: maxMultiplier(),
    load_multiplier_linear_increment: increment(),
    alerter: throttlingAlert(),
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
  in_ports: ins(overloadIns),
  out_ports: overloadOuts(),
  parameters: about("The strategy.", required(part(aiadParameters))),
  ...dryRun(),
  overload_condition: about(
    "How signal and setpoint compare in an overload.",
    text({ default: "gt", oneOf: ["gt", "lt", "gte", "lte"] }),
  ),
});
export type AiadLoadScheduler = ValueOf<typeof aiadLoadScheduler>;

const datapoint = message("RangeDrivenLoadScheduler.Datapoint", {
  signal_value: about("Where on the signal.", number()),
  load_multiplier: about("The multiplier there.", number({ min: 0, max: 1 })),
});

export const rangeDrivenLoadScheduler = message("RangeDrivenLoadScheduler", {
  in_ports: ins(
    message("RangeDrivenLoadScheduler.Ins", {
      signal: required(input("What shows an overload.")),
      overload_confirmation: confirmation(),
    }),
  ),
  out_ports: overloadOuts(),
  parameters: about(
    "The strategy.",
    required(
      part(
        message("RangeDrivenLoadScheduler.Parameters", {
          load_scheduler: inner(),
          low_throttle_threshold: about("Lower end of the range.", required(part(datapoint))),
          high_throttle_threshold: about("Upper end of the range.", required(part(datapoint))),
          degree: about("Shape of the curve in between; 1 is a line.", required(number())),
          alerter: throttlingAlert(),
        }),
      ),
    ),
  ),
  ...dryRun(),
});
export type RangeDrivenLoadScheduler = ValueOf<typeof rangeDrivenLoadScheduler>;
