// Metrics of a controller: policies, circuits, queries, commits and alerts.

import type { MetricTable } from "./row.ts";

const SIGNAL = ["signal_name", "sub_circuit_id", "policy_name"] as const;

export const CONTROL_METRICS = {
  sluice_policies: {
    type: "gauge",
    labels: ["state"],
    about:
      "Policy documents in force (loaded) and not accepted (refused). Those in force that no source of this controller has, and that `policies.removal_guard` keeps, are also counted as kept.",
  },
  sluice_policy_reload_total: {
    type: "counter",
    labels: ["result"],
    about: "Reads of the policy directory after a change: success or failure.",
  },
  sluice_policy_checkpoints_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Checkpoints of policies, from which another leader goes on: `written` to the store, not written (`failed`), `restored` when this controller began to lead, and then `ignored` because they were too old or unreadable.",
  },
  sluice_policy_warnings: {
    type: "gauge",
    labels: ["policy_name", "code"],
    about:
      "Warnings about a policy in force: parts of it that do not do what the document says. The status of the policy has them in words.",
  },
  sluice_scaled_objects: {
    type: "gauge",
    labels: ["state"],
    about:
      "Kubernetes objects that policies name for scaling: `followed`, or `faulty`, which are not scaled now. Only on the controller that leads, with `auto_scale.kubernetes.enabled`.",
  },
  sluice_scale_attempts_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Attempts to scale objects: `scaled`, in `conflict` with a change of somebody else and made again, or `failed`.",
  },
  signal_reading: {
    type: "summary",
    labels: SIGNAL,
    about:
      "Valid finite readings of a signal, one per tick. Quantiles 0, 0.01, 0.05, 0.5, 0.9, 0.99 and 1, exact over the last 128 readings; none before the first.",
  },
  invalid_signal_readings_total: {
    type: "counter",
    labels: SIGNAL,
    about: "Ticks in which a signal was invalid.",
  },
  infinite_signal_readings_total: {
    type: "counter",
    labels: SIGNAL,
    about: "Ticks in which a signal was infinite.",
  },
  sluice_circuit_ticks_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Ticks of a policy's circuit.",
  },
  sluice_circuit_ticks_skipped_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Ticks that were skipped because they were overdue.",
  },
  sluice_circuit_tick_late_ms: {
    type: "gauge",
    labels: ["policy_name"],
    about: "Milliseconds by which the last tick was late.",
  },
  sluice_circuit_faults_total: {
    type: "counter",
    labels: ["policy_name", "component_id", "component"],
    about: "Ticks in which a component of a circuit failed. The other components continue.",
  },
  sluice_circuit_decisions_total: {
    type: "counter",
    labels: ["policy_name", "kind"],
    about: "Decisions that a circuit made for agents, by the kind of component.",
  },
  sluice_circuit_queries_total: {
    type: "counter",
    labels: ["policy_name", "result"],
    about:
      "Queries of a circuit: answered, failed, or late (no result before the next evaluation).",
  },
  sluice_circuit_query_retries_total: {
    type: "counter",
    labels: ["policy_name"],
    about: "Retries of a circuit's queries.",
  },
  sluice_query_latency_ms: {
    type: "histogram",
    labels: [],
    about: "Duration of each attempt at a query in milliseconds, successful or not.",
  },
  sluice_query_samples_series: {
    type: "gauge",
    labels: [],
    about:
      "Series of this process whose samples are kept, because queries select them. Only where no Prometheus server is configured.",
  },
  sluice_query_samples_lost_total: {
    type: "counter",
    labels: [],
    about:
      "Samples of this process for which there was no room. The queries that need them have no result until their range is complete again.",
  },
  sluice_controller_commits_total: {
    type: "counter",
    labels: ["result"],
    about: "Writes of configurations and decisions to the store: success or failure.",
  },
  sluice_alerts_total: {
    type: "counter",
    labels: ["alertmanager", "result"],
    about:
      "Alerts by result: sent, failed (the Alertmanager could not be reached or failed), refused (the Alertmanager rejected the alert) or dropped (the queue was full).",
  },
} as const satisfies MetricTable;
