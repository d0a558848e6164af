// The table of all metrics of Sluice, which sources, the exposition, the reference page and tests share. Names and labels
// are a contract with dashboards and with the controller's queries.

import type { LimiterKind } from "#flow/rules.ts";
import { CONTROL_METRICS } from "./table/control.ts";
import { COUNTER_METRICS } from "./table/counters.ts";
import { FINISHED_FLOW_METRICS } from "./table/finished-flows.ts";
import { FLEET_METRICS } from "./table/fleet.ts";
import { INJECTION_METRICS } from "./table/injection.ts";
import { PORT_METRICS } from "./table/port.ts";
import type { MetricTable, MetricType } from "./table/row.ts";
import { WORKLOAD_METRICS } from "./table/workloads.ts";

const COMPONENT = ["policy_name", "policy_hash", "component_id"] as const;

/** Requests, decisions, and the work of limiters and classifiers. */
const CHECK_METRICS = {
  flowcontrol_requests_total: {
    type: "counter",
    labels: ["control_point", "agent_group"],
    about: "Checks, accepted or rejected.",
  },
  flowcontrol_decisions_total: {
    type: "counter",
    labels: ["control_point", "agent_group", "decision_type"],
    about: "Checks by decision.",
  },
  flowcontrol_reject_reasons_total: {
    type: "counter",
    labels: ["control_point", "agent_group", "reject_reason"],
    about: "Rejected checks by the reason of the stage that rejected them.",
  },
  flowcontrol_ends_total: {
    type: "counter",
    labels: ["control_point", "agent_group"],
    about: "FlowEnd calls; those that name no control point count for `_other`.",
  },
  service_lookups_total: {
    type: "counter",
    labels: ["status"],
    about:
      "Lookups of services by peer or socket address. OK: at least one service was found; Error: none.",
  },
  classifier_counter_total: {
    type: "counter",
    labels: ["policy_name", "policy_hash", "classifier_index"],
    about: "Runs of a classifier, including failed ones.",
  },
  rate_limiter_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "limiter_dropped"],
    about:
      "Decisions of a rate limiter, by the decision of the whole check (`decision_type`) and its own (`limiter_dropped`).",
  },
  concurrency_limiter_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "limiter_dropped"],
    about:
      "Decisions of a concurrency limiter, by the decision of the whole check (`decision_type`) and its own (`limiter_dropped`).",
  },
  sampler_counter_total: {
    type: "counter",
    labels: [...COMPONENT, "decision_type", "sampler_dropped"],
    about:
      "Decisions of a sampler or load ramp, by the decision of the whole check (`decision_type`) and its own (`sampler_dropped`).",
  },
  sluice_anomalies_total: {
    type: "counter",
    labels: ["kind"],
    about:
      "Anomalies by kind: input that was ignored, limits that were reached, and decisions by a failure mode. `no_control_point` counts checks by proxies that named none and got an error, with which proxies that fail open let requests pass; `flow_control.default_control_point` names one for these. `match_too_costly` counts the rules that were not matched because a label value is too long for their regular expression.",
  },
  sluice_shed_checks_total: {
    type: "counter",
    labels: ["control_point", "agent_group", "decision_type", "cause"],
    about:
      "Checks that were not judged because the agent has more of them than it can judge, by the answer of their policies' failure modes. Causes: checks wait too long before the agent handles them (`delay`), their caller takes more than its fair share of the time meanwhile, so limiters refused them (`cost`), or too many checks wait for other servers (`in_progress`). They count as checks and as decisions, too.",
  },
  sluice_check_wait_seconds: {
    type: "gauge",
    labels: [],
    about:
      "Median time for which callers waited until it was their turn, of the last 20 ms before the scrape. Shedding begins above `flow_control.overload.max_delay`.",
  },
  sluice_shed_share: {
    type: "gauge",
    labels: [],
    about:
      "Share of the load that the agent sheds now, 0 to 1: of the time that judging all checks would take, or of the checks where too many wait for other servers.",
  },
  sluice_checks_in_progress: {
    type: "gauge",
    labels: [],
    about:
      "Checks that wait for an answer of other servers, such as Redis or other agents. Those in the queue of a scheduler are not among them.",
  },
  sluice_limiter_missing_labels_total: {
    type: "counter",
    labels: [...COMPONENT, "label"],
    about:
      "Flows that reached a limiter without a label that it reads: the one by which it tells flows apart (`key`), or the one with the number of tokens (`tokens`).",
  },
  sluice_settlements_total: {
    type: "counter",
    labels: [...COMPONENT, "result"],
    about:
      "Flows whose cost a limiter settled: at their true cost (`committed`), free by their HTTP status (`refunded`), because nobody reported their end (`unsettled`, `unsettled_refunded`), or at their estimate from the start, because their policy has too many flows to settle (`no_room`).",
  },
  sluice_settled_tokens_total: {
    type: "counter",
    labels: [...COMPONENT, "direction"],
    about:
      "Tokens by which settled costs differ from what the flows took: `charged` later, or `returned`.",
  },
} as const satisfies MetricTable;

export const METRICS = {
  ...CHECK_METRICS,
  ...WORKLOAD_METRICS,
  ...COUNTER_METRICS,
  ...FINISHED_FLOW_METRICS,
  ...CONTROL_METRICS,
  ...FLEET_METRICS,
  ...INJECTION_METRICS,
  ...PORT_METRICS,
} as const;

export type MetricName = keyof typeof METRICS;

/** The counter of each kind of limiter. A load ramp counts as a sampler. */
export const LIMITER_COUNTERS = {
  rate_limiter: "rate_limiter_counter_total",
  concurrency_limiter: "concurrency_limiter_counter_total",
  sampler: "sampler_counter_total",
  ramp_sampler: "sampler_counter_total",
  load_scheduler: "workload_requests_total",
  quota_scheduler: "workload_requests_total",
  concurrency_scheduler: "workload_requests_total",
} as const satisfies Readonly<Record<LimiterKind, MetricName>>;

type Named<T extends MetricType> = {
  [Name in MetricName]: (typeof METRICS)[Name]["type"] extends T ? Name : never;
}[MetricName];

/** A histogram's counts: one per bucket and one for values above the last bound. Not cumulative. */
export interface Buckets {
  /** Inclusive upper bounds, ascending, without +Inf. */
  readonly bounds: readonly number[];
  /** One longer than `bounds`. */
  readonly counts: ArrayLike<number>;
  readonly sum: number;
}

/** A summary's quantiles, computed by the source; empty when nothing was observed. */
export interface Summary {
  readonly quantiles: readonly number[];
  /** One value for each quantile. */
  readonly values: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** Receives the samples of one scrape. Label values are in the order of the table. */
export interface MetricSink {
  /** True if samples of this metric are used. Others are ignored: a source may ask before it computes expensive ones. */
  wants(name: MetricName): boolean;
  number(
    name: Named<"counter" | "gauge">,
    labels: readonly (string | number)[],
    value: number,
  ): void;
  buckets(name: Named<"histogram">, labels: readonly (string | number)[], buckets: Buckets): void;
  summary(name: Named<"summary">, labels: readonly (string | number)[], summary: Summary): void;
}

/** Counts in its own arrays and reports them when metrics are collected. Collecting changes nothing. */
export interface MetricSource {
  collect(to: MetricSink): void;
}
