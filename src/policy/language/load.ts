// Schedulers, and the strategies that drive a load scheduler.

import { DEFAULT_WORKLOAD } from "#flow/rules.ts";
import { quote } from "../document/tree.ts";
import type { Warn } from "../document/warning.ts";
import { gradientParameters } from "./control.ts";
import {
  about,
  configKey,
  duration,
  durationOr,
  flag,
  labelKey,
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
  checkIdleTime,
  checkMaxConcurrency,
  concurrencyLimiterIns,
  concurrencyLimiterParameters,
  rateLimiterIns,
  rateLimiterParameters,
} from "./flow.ts";
import { input, ins, output, outs, reading } from "./ports.ts";
import { type Expression, type LabelMatcher, labelMatcher, selectors } from "./selector.ts";
import { alerterParameters } from "./signals.ts";
import { statusCode } from "./status-code.ts";

const workloadParameters = message("Scheduler.Workload.Parameters", {
  priority: about(
    "Share of capacity under load, relative to other workloads.",
    number({ default: 1, above: 0 }),
  ),
  queue_timeout: about(
    "Maximum time in the queue. Default: until the caller's deadline.",
    duration(),
  ),
  tokens: about("Number of tokens that a flow takes.", number({ default: 1, min: 0 })),
});

const workload = message("Scheduler.Workload", {
  parameters: about("Priority and cost of its flows.", part(workloadParameters)),
  label_matcher: about("Matches the flows of the workload.", required(part(labelMatcher))),
  name: about("Name in metrics.", text({ name: true })),
});

/** The conditions of a matcher, all of which must hold, as text. */
function conditionsOf(matcher: LabelMatcher): readonly string[] {
  const { match_labels, match_expressions, match_list, expression } = matcher;
  const old = match_list.length === 0 ? match_expressions : [];
  return [
    ...[...match_labels].map(([label, value]) => JSON.stringify({ label, value })),
    ...[...old, ...match_list].map((each) => JSON.stringify(each)),
    ...(expression === undefined || isAlwaysTrue(expression) ? [] : [JSON.stringify(expression)]),
  ];
}

/** True for `all` of no expressions, which is no condition. */
function isAlwaysTrue({ all }: Expression): boolean {
  return all?.of.every(isAlwaysTrue) ?? false;
}

/**
 * Warns of workloads that no flow reaches, because one before them has no condition, the same conditions, or one of
 * their conditions alone. Each is looked up, so that this takes time in proportion to the text.
 */
function checkReached(
  workloads: readonly { readonly label_matcher: LabelMatcher }[],
  warn: Warn,
): void {
  const first = new Map<string, number>();
  for (const [at, { label_matcher }] of workloads.entries()) {
    const conditions = conditionsOf(label_matcher);
    const whole = conditions.toSorted().join();
    const before = ["", ...conditions, whole].flatMap((each) => first.get(each) ?? []);
    const [by] = before.toSorted((left, right) => left - right);
    if (by === undefined) first.set(whole, at);
    else {
      const text = `no flow reaches this workload: workloads[${by}] matches all of its flows`;
      warn("unusual_value", ["workloads", at, "label_matcher"], text);
    }
  }
}

/** Warns of workloads whose metrics are those of another one, or of the flows that match none. */
function checkNames(workloads: readonly { readonly name: string }[], warn: Warn): void {
  const first = new Map<string, string>([[DEFAULT_WORKLOAD, "the flows that match no workload"]]);
  for (const [at, { name }] of workloads.entries()) {
    // Workloads without a name are called by their place.
    const label = name === "" ? String(at) : name;
    const other = first.get(label);
    if (other === undefined) first.set(label, `workloads[${at}]`);
    else {
      const text = `metrics cannot tell this workload from ${other}: both are called ${quote(label)}`;
      warn("unusual_value", ["workloads", at, "name"], text);
    }
  }
}

/** Callers hardly ever wait longer than this, ms. */
const LONG_MARGIN_MS = 10_000;

export const scheduler = message(
  "Scheduler",
  {
    workloads: about(
      "Workloads in order; a flow belongs to the first that matches.",
      list(part(workload)),
    ),
    default_workload_parameters: about(
      "Parameters of flows that match no workload.",
      part(workloadParameters),
    ),
    decision_deadline_margin: about(
      "A queued flow is decided this long before its caller's deadline.",
      durationOr(10),
    ),
    tokens_label_key: about("Label with the number of tokens that a flow takes.", labelKey(text())),
    priority_label_key: about("Label with the priority of a flow.", labelKey(text())),
    denied_response_status_code: statusCode("ServiceUnavailable"),
    workload_label_key: about("Label with the name of a flow's workload.", labelKey(text())),
    fairness_label_key: about(
      "Label whose values share the capacity of a workload fairly.",
      labelKey(text()),
    ),
  },
  {
    check({ workloads, decision_deadline_margin: margin }, _, warn) {
      checkReached(workloads, warn);
      checkNames(workloads, warn);
      if (margin < LONG_MARGIN_MS) return;
      const text = `flows of callers that wait for less than ${margin / 1_000}s never queue`;
      warn("unusual_value", ["decision_deadline_margin"], text);
    },
  },
);
const scheduling = () => about("Workloads and queues.", part(scheduler));

export const quotaScheduler = message(
  "QuotaScheduler",
  {
    in_ports: required(ins(rateLimiterIns)),
    selectors: selectors(),
    rate_limiter: about(
      "Interval, key and behaviour of the buckets.",
      required(part(rateLimiterParameters)),
    ),
    scheduler: scheduling(),
    out_ports: outs(acceptOuts),
  },
  {
    check({ in_ports, rate_limiter, scheduler }, _, warn) {
      checkIdleTime(in_ports, rate_limiter, "rate_limiter", warn);
      const constant = in_ports.bucket_capacity.constant_signal;
      const capacity = constant === undefined ? Number.NaN : reading(constant);
      // Nothing passes a bucket without room, which may be meant.
      if (scheduler === undefined || !(capacity > 0)) return;
      const { workloads, default_workload_parameters: others } = scheduler;
      const remark = (tokens: number | undefined, path: readonly (string | number)[]) => {
        if (tokens === undefined || tokens <= capacity) return;
        const text = `${tokens} tokens are more than the bucket_capacity of ${capacity}: such a flow never passes`;
        warn("unusual_value", ["scheduler", ...path, "tokens"], text);
      };
      for (const [at, { parameters }] of workloads.entries())
        remark(parameters?.tokens, ["workloads", at, "parameters"]);
      remark(others?.tokens, ["default_workload_parameters"]);
    },
  },
);
export type QuotaScheduler = ValueOf<typeof quotaScheduler>;

export const concurrencyScheduler = message(
  "ConcurrencyScheduler",
  {
    in_ports: ins(concurrencyLimiterIns),
    selectors: selectors(),
    concurrency_limiter: about(
      "Key and timeouts of the counters, and whether the limit is adaptive.",
      required(part(concurrencyLimiterParameters)),
    ),
    scheduler: scheduling(),
    out_ports: outs(acceptOuts),
  },
  {
    check: ({ in_ports, concurrency_limiter }, refuse) =>
      checkMaxConcurrency(in_ports, concurrency_limiter.adaptive, refuse),
  },
);
export type ConcurrencyScheduler = ValueOf<typeof concurrencyScheduler>;

const loadSchedulerParameters = message("LoadScheduler.Parameters", {
  workload_latency_based_tokens: about(
    "The cost of a workload's flows in tokens is their mean latency in milliseconds.",
    flag(),
  ),
  scheduler: scheduling(),
  selectors: selectors(),
});

const dryRun = () =>
  ({
    dry_run: about("Makes and reports decisions, but lets every flow pass.", flag()),
    dry_run_config_key: about(
      "Key of the dynamic configuration value that overrides `dry_run`.",
      configKey("boolean"),
    ),
  }) as const;

export const loadScheduler = message("LoadScheduler", {
  in_ports: required(
    ins(
      message("LoadScheduler.Ins", {
        load_multiplier: input("Fraction of the incoming tokens to let through."),
      }),
    ),
  ),
  out_ports: outs(
    message("LoadScheduler.Outs", {
      observed_load_multiplier: output("Fraction that was really let through recently."),
    }),
  ),
  parameters: about("Which flows it schedules, and how.", required(part(loadSchedulerParameters))),
  ...dryRun(),
});
export type LoadScheduler = ValueOf<typeof loadScheduler>;

const confirmation = () =>
  input("An overload counts only while this is not 0; unconnected or invalid counts as confirmed.");

const overloadIns = message("AIMDLoadScheduler.Ins", {
  signal: required(input("Signal that shows an overload.")),
  setpoint: required(input("Value of the signal beyond which there is an overload.")),
  overload_confirmation: confirmation(),
});

const overloadOuts = () =>
  outs(
    message("AIMDLoadScheduler.Outs", {
      is_overload: output("1 during an overload, otherwise 0."),
      desired_load_multiplier: output("Fraction of load that the strategy wants to let through."),
      observed_load_multiplier: output("Fraction that was really let through recently."),
    }),
  );

const inner = () =>
  about("The load scheduler that the strategy drives.", required(part(loadSchedulerParameters)));
const gradient = () =>
  about("Gradient by which load is cut during an overload.", required(part(gradientParameters)));
const throttlingAlert = () =>
  about("Alert raised while load is cut.", required(part(alerterParameters)));
const maxMultiplier = (field = number({ default: 2, min: 0, special: "infinities" })) =>
  about("Multiplier at which the overload is over and everything passes again.", field);
const increment = (field = number({ default: 0.025, min: 0 })) =>
  about("Amount that recovery adds to the multiplier every 10 s.", field);

export const aimdLoadScheduler = message("AIMDLoadScheduler", {
  in_ports: ins(overloadIns),
  out_ports: overloadOuts(),
  parameters: about(
    "Parameters of the strategy.",
    required(
      part(
        message("AIMDLoadScheduler.Parameters", {
          load_scheduler: inner(),
          gradient: gradient(),
          max_load_multiplier: maxMultiplier(
            number({ default: 2, above: 0, special: "infinities" }),
          ),
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
    "Parameters of the strategy.",
    required(
      part(
        message("AdaptiveLoadScheduler.Parameters", {
          load_scheduler: inner(),
          gradient: gradient(),
          max_load_multiplier: maxMultiplier(number({ default: 2, special: "infinities" })),
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
    min_load_multiplier: about("Lower bound of the multiplier.", number({ min: 0 })),
    load_multiplier_linear_decrement: about(
      "Amount that an overload subtracts from the multiplier every 10 s.",
      number({ default: 0.05, min: 0 }),
    ),
    max_load_multiplier: maxMultiplier(),
    load_multiplier_linear_increment: increment(),
    alerter: throttlingAlert(),
  },
  {
    check({ min_load_multiplier: min, max_load_multiplier: max }, refuse) {
      if (max < min) {
        refuse(["max_load_multiplier"], `at least min_load_multiplier (${min})`, String(max));
      }
    },
  },
);

export const aiadLoadScheduler = message("AIADLoadScheduler", {
  in_ports: ins(overloadIns),
  out_ports: overloadOuts(),
  parameters: about("Parameters of the strategy.", required(part(aiadParameters))),
  ...dryRun(),
  overload_condition: about(
    "Comparison of signal to setpoint that holds during an overload.",
    text({ default: "gt", oneOf: ["gt", "lt", "gte", "lte"] }),
  ),
});
export type AiadLoadScheduler = ValueOf<typeof aiadLoadScheduler>;

const datapoint = message("RangeDrivenLoadScheduler.Datapoint", {
  signal_value: about("Value of the signal.", number()),
  load_multiplier: about("Multiplier at this value.", number({ min: 0, max: 1 })),
});

export const rangeDrivenLoadScheduler = message("RangeDrivenLoadScheduler", {
  in_ports: ins(
    message("RangeDrivenLoadScheduler.Ins", {
      signal: required(input("Signal that shows an overload.")),
      overload_confirmation: confirmation(),
    }),
  ),
  out_ports: overloadOuts(),
  parameters: about(
    "Parameters of the strategy.",
    required(
      part(
        message("RangeDrivenLoadScheduler.Parameters", {
          load_scheduler: inner(),
          low_throttle_threshold: about("Lower end of the range.", required(part(datapoint))),
          high_throttle_threshold: about("Upper end of the range.", required(part(datapoint))),
          degree: about(
            "Degree of the curve in between; 1 is a straight line.",
            required(number()),
          ),
          alerter: throttlingAlert(),
        }),
      ),
    ),
  ),
  ...dryRun(),
});
export type RangeDrivenLoadScheduler = ValueOf<typeof rangeDrivenLoadScheduler>;
