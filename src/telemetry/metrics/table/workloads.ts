// Metrics of schedulers: their workloads, the tokens that flows asked for, and queues.

import type { MetricTable } from "./row.ts";

const COMPONENT = ["policy_name", "policy_hash", "component_id"] as const;
const WORKLOAD = [...COMPONENT, "workload_index"] as const;

export const WORKLOAD_METRICS = {
  workload_requests_total: {
    type: "counter",
    labels: [...WORKLOAD, "decision_type", "limiter_dropped"],
    about:
      "Decisions of a scheduler by workload, by the decision of the whole check (`decision_type`) and its own (`limiter_dropped`). Beyond 100 workloads of a component, further ones are `_other`.",
  },
  workload_latency_ms: {
    type: "summary",
    labels: WORKLOAD,
    about: "Time that the service needed for accepted flows, by access log or span.",
  },
  incoming_tokens_total: {
    type: "counter",
    labels: COMPONENT,
    about: "Tokens of all flows that a scheduler judged.",
  },
  accepted_tokens_total: {
    type: "counter",
    labels: COMPONENT,
    about: "Tokens of flows that a scheduler let pass.",
  },
  rejected_tokens_total: {
    type: "counter",
    labels: COMPONENT,
    about: "Tokens of flows that a scheduler refused, or whose callers did not wait.",
  },
  sluice_scheduler_waiting_flows: {
    type: "gauge",
    labels: COMPONENT,
    about: "Flows that wait in the queues of a scheduler.",
  },
  request_in_queue_duration_ms: {
    type: "summary",
    labels: WORKLOAD,
    about: "Time that flows spent in the queue of a scheduler; 0 for those decided at once.",
  },
  workload_preempted_tokens: {
    type: "summary",
    labels: WORKLOAD,
    about: "Tokens of flows in the queue that a flow overtook.",
  },
  workload_delayed_tokens: {
    type: "summary",
    labels: WORKLOAD,
    about: "Tokens of later flows that overtook a flow in the queue.",
  },
  workload_on_time_total: {
    type: "counter",
    labels: WORKLOAD,
    about: "Flows that left the queue in the order of their arrival.",
  },
  fairness_preempted_tokens: {
    type: "summary",
    labels: WORKLOAD,
    about:
      "As `workload_preempted_tokens`, within the workload, of flows that stood behind another one of their fairness label.",
  },
  fairness_delayed_tokens: {
    type: "summary",
    labels: WORKLOAD,
    about:
      "As `workload_delayed_tokens`, within the workload, of flows that stood behind another one of their fairness label.",
  },
  fairness_on_time_total: {
    type: "counter",
    labels: WORKLOAD,
    about:
      "As `workload_on_time_total`, within the workload, of flows that stood behind another one of their fairness label.",
  },
  sluice_adaptive_limit: {
    type: "gauge",
    labels: [...COMPONENT, "which"],
    about:
      "Concurrency limits in force that a component with `adaptive` has found: the `lowest` and the `highest` of all its keys. Where agents share counters, each reports the keys that it counts.",
  },
  sluice_adaptive_limit_latency_ms: {
    type: "gauge",
    labels: [...COMPONENT, "which"],
    about:
      "Mean latency of flows without a queue, with which those limits compare that of all flows: the `lowest` and the `highest` of all keys.",
  },
  sluice_adaptive_limit_keys: {
    type: "gauge",
    labels: COMPONENT,
    about: "Keys that have an adaptive limit of their own, at most 16 384 for each component.",
  },
  sluice_load_condition: {
    type: "gauge",
    labels: [...COMPONENT, "condition"],
    about:
      "1 for the state of a load scheduler: `limiting`; or, while every flow passes, `measuring` the rate, `pass_through` because its decision says so, `no_decision`, or `out_of_date` because the last one is too old.",
  },
  token_bucket_lm_ratio: {
    type: "gauge",
    labels: COMPONENT,
    about: "Load multiplier in force at a load scheduler; 1 while it lets everything pass.",
  },
  token_bucket_fill_rate: {
    type: "gauge",
    labels: COMPONENT,
    about: "Tokens per second that a load scheduler lets pass.",
  },
  token_bucket_capacity_total: {
    type: "gauge",
    labels: COMPONENT,
    about: "Most tokens in the bucket of a load scheduler.",
  },
  token_bucket_available_tokens_total: {
    type: "gauge",
    labels: COMPONENT,
    about: "Tokens in the bucket of a load scheduler when it was last used.",
  },
} as const satisfies MetricTable;
