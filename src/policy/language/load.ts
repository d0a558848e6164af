// Schedulers, the strategies that drive a load scheduler, and the ramp that drives a sampler.

import { DEFAULT_WORKLOAD } from "#flow/rules.ts";
import { quote } from "../document/tree.ts";
import type { Warn } from "../document/warning.ts";
import {
  duration,
  durationOr,
  each,
  filledList,
  flag,
  list,
  message,
  nested,
  number,
  part,
  type Range,
  text,
  type ValueOf,
} from "./field.ts";
import {
  acceptOuts,
  checkIdleTime,
  checkMaxConcurrency,
  concurrencyLimiterIns,
  concurrencyLimiterParameters,
  passThrough,
  rateLimiterIns,
  rateLimiterParameters,
  samplerParameters,
  statusCode,
} from "./flow.ts";
import { input, ins, output, outs, reading } from "./ports.ts";
import { type Expression, type LabelMatcher, labelMatcher, selectors } from "./selector.ts";
import { alerterParameters, dryRun, gradientParameters } from "./signals.ts";

const workloadParameters = message("Scheduler.Workload.Parameters", {
  priority: number(1, { default: 1, above: 0 }).about(
    "Share of capacity under load, relative to other workloads.",
  ),
  queue_timeout: duration(3).about(
    "Maximum time in the queue. Default: until the caller's deadline.",
  ),
  tokens: number(4, { default: 1, min: 0 }).about("Number of tokens that a flow takes."),
});

const workload = message("Scheduler.Workload", {
  parameters: part(1, workloadParameters).about("Priority and cost of its flows."),
  label_matcher: part(2, labelMatcher).required.about("Matches the flows of the workload."),
  name: text(3, { name: true }).about("Name in metrics."),
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
    workloads: list(1, each(workload)).about(
      "Workloads in order; a flow belongs to the first that matches.",
    ),
    default_workload_parameters: part(2, workloadParameters).about(
      "Parameters of flows that match no workload.",
    ),
    decision_deadline_margin: durationOr(6, 10).about(
      "A queued flow is decided this long before its caller's deadline.",
    ),
    tokens_label_key: text(7).labelKey.about("Label with the number of tokens that a flow takes."),
    priority_label_key: text(8).labelKey.about("Label with the priority of a flow."),
    denied_response_status_code: statusCode(9, "ServiceUnavailable"),
    workload_label_key: text(10).labelKey.about("Label with the name of a flow's workload."),
    fairness_label_key: text(11).labelKey.about(
      "Label whose values share the capacity of a workload fairly.",
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
const scheduling = (tag: number) => part(tag, scheduler).about("Workloads and queues.");

export const quotaScheduler = message(
  "QuotaScheduler",
  {
    in_ports: part(1, rateLimiterIns).required.about("In-ports."),
    selectors: selectors(2),
    rate_limiter: part(3, rateLimiterParameters).required.about(
      "Interval, key and behaviour of the buckets.",
    ),
    scheduler: scheduling(4),
    out_ports: acceptOuts(5, "RateLimiter"),
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
    in_ports: part(1, concurrencyLimiterIns).about("In-ports."),
    selectors: selectors(2),
    concurrency_limiter: part(3, concurrencyLimiterParameters).required.about(
      "Key and timeouts of the counters, and whether the limit is adaptive.",
    ),
    scheduler: scheduling(4),
    out_ports: acceptOuts(5, "ConcurrencyLimiter"),
  },
  {
    check: ({ in_ports, concurrency_limiter }, refuse) =>
      checkMaxConcurrency(in_ports, concurrency_limiter.adaptive, refuse),
  },
);
export type ConcurrencyScheduler = ValueOf<typeof concurrencyScheduler>;

const loadSchedulerParameters = message("LoadScheduler.Parameters", {
  workload_latency_based_tokens: flag(1).about(
    "The cost of a workload's flows in tokens is their mean latency in milliseconds.",
  ),
  scheduler: scheduling(2),
  selectors: selectors(3),
});

const PASSES = "lets every flow pass";

export const loadScheduler = message("LoadScheduler", {
  in_ports: ins(1, {
    load_multiplier: input(1, "Fraction of the incoming tokens to let through."),
  }).required,
  out_ports: outs(2, {
    observed_load_multiplier: output(1, "Fraction that was really let through recently."),
  }),
  parameters: part(5, loadSchedulerParameters).required.about("Which flows it schedules, and how."),
  ...dryRun(6, PASSES),
});
export type LoadScheduler = ValueOf<typeof loadScheduler>;

const confirmation = (tag: number) =>
  input(
    tag,
    "An overload counts only while this is not 0; unconnected or invalid counts as confirmed.",
  );

const overloadIns = (tag: number) =>
  ins(tag, {
    signal: input(1, "Signal that shows an overload.").required,
    setpoint: input(2, "Value of the signal beyond which there is an overload.").required,
    overload_confirmation: confirmation(3),
  });

const overloadOuts = (tag: number) =>
  outs(tag, {
    is_overload: output(1, "1 during an overload, otherwise 0."),
    desired_load_multiplier: output(2, "Fraction of load that the strategy wants to let through."),
    observed_load_multiplier: output(3, "Fraction that was really let through recently."),
  });

const inner = (tag: number) =>
  part(tag, loadSchedulerParameters).required.about("The load scheduler that the strategy drives.");
const gradient = (tag: number) =>
  part(tag, gradientParameters).required.about("Gradient by which load is cut during an overload.");
const throttlingAlert = (tag: number) =>
  part(tag, alerterParameters).required.about("Alert raised while load is cut.");
const maxMultiplier = (tag: number, range: Range) =>
  number(tag, { default: 2, special: "infinities", ...range }).about(
    "Multiplier at which the overload is over and everything passes again.",
  );
const increment = (
  tag: number,
  rules: { default: number; min?: number } = { default: 0.025, min: 0 },
) => number(tag, rules).about("Amount that recovery adds to the multiplier every 10 s.");

export const aimdLoadScheduler = message("AIMDLoadScheduler", {
  in_ports: overloadIns(1),
  out_ports: overloadOuts(2),
  parameters: nested(3, "Parameters", {
    load_scheduler: inner(1),
    gradient: gradient(2),
    max_load_multiplier: maxMultiplier(3, { above: 0 }),
    load_multiplier_linear_increment: increment(4),
    alerter: throttlingAlert(5),
  }).required.about("Parameters of the strategy."),
  ...dryRun(4, PASSES),
});
export type AimdLoadScheduler = ValueOf<typeof aimdLoadScheduler>;

export const adaptiveLoadScheduler = message("AdaptiveLoadScheduler", {
  in_ports: overloadIns(1).required,
  out_ports: overloadOuts(2),
  parameters: nested(3, "Parameters", {
    load_scheduler: inner(1),
    gradient: gradient(2),
    max_load_multiplier: maxMultiplier(3, {}),
    load_multiplier_linear_increment: increment(4, { default: 0.0025 }),
    alerter: throttlingAlert(5),
  }).required.about("Parameters of the strategy."),
  ...dryRun(6, PASSES),
});
export type AdaptiveLoadScheduler = ValueOf<typeof adaptiveLoadScheduler>;

const aiadParameters = message(
  "AIADLoadScheduler.Parameters",
  {
    load_scheduler: inner(1),
    min_load_multiplier: number(2, { min: 0 }).about("Lower bound of the multiplier."),
    load_multiplier_linear_decrement: number(3, { default: 0.05, min: 0 }).about(
      "Amount that an overload subtracts from the multiplier every 10 s.",
    ),
    max_load_multiplier: maxMultiplier(4, { min: 0 }),
    load_multiplier_linear_increment: increment(5),
    alerter: throttlingAlert(7),
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
  in_ports: overloadIns(1),
  out_ports: overloadOuts(2),
  parameters: part(3, aiadParameters).required.about("Parameters of the strategy."),
  ...dryRun(4, PASSES),
  overload_condition: text(6, { default: "gt", oneOf: ["gt", "lt", "gte", "lte"] }).about(
    "Comparison of signal to setpoint that holds during an overload.",
  ),
});
export type AiadLoadScheduler = ValueOf<typeof aiadLoadScheduler>;

const datapoint = message("RangeDrivenLoadScheduler.Datapoint", {
  signal_value: number(1).about("Value of the signal."),
  load_multiplier: number(2, { min: 0, max: 1 }).about("Multiplier at this value."),
});

export const rangeDrivenLoadScheduler = message("RangeDrivenLoadScheduler", {
  in_ports: ins(1, {
    signal: input(1, "Signal that shows an overload.").required,
    overload_confirmation: confirmation(3),
  }),
  out_ports: overloadOuts(2),
  parameters: nested(3, "Parameters", {
    load_scheduler: inner(1),
    low_throttle_threshold: part(2, datapoint).required.about("Lower end of the range."),
    high_throttle_threshold: part(3, datapoint).required.about("Upper end of the range."),
    degree: number(4).required.about("Degree of the curve in between; 1 is a straight line."),
    alerter: throttlingAlert(5),
  }).required.about("Parameters of the strategy."),
  ...dryRun(4, PASSES),
});
export type RangeDrivenLoadScheduler = ValueOf<typeof rangeDrivenLoadScheduler>;

const rampStep = message("LoadRamp.Parameters.Step", {
  target_accept_percentage: number(1, { min: 0, max: 100 }).about(
    "Percentage of flows accepted at the end of the step.",
  ),
  duration: duration(2).required.about("Time in which the percentage moves to the target."),
});

export const loadRamp = message("LoadRamp", {
  in_ports: ins(1, {
    forward: input(1, "Moves towards the last step while valid and not 0."),
    backward: input(2, "Moves towards the first step while valid and not 0."),
    reset: input(3, "Returns to the start at once; takes precedence over both."),
  }),
  out_ports: outs(2, {
    accept_percentage: output(1, "Percentage of flows accepted now."),
    at_start: output(2, "1 at the start, otherwise 0."),
    at_end: output(3, "1 at the end, otherwise 0."),
  }),
  parameters: nested(3, "Parameters", {
    sampler: part(1, samplerParameters).required.about(
      "The sampler that carries out the ramp, always in ramp mode.",
    ),
    steps: filledList(2, each(rampStep)).about("Steps of the ramp, in order."),
  }).required.about("The sampler and the steps."),
  ...passThrough(4),
});
export type LoadRamp = ValueOf<typeof loadRamp>;
