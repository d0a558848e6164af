// The table of all metrics of Sluice, which sources, the exposition, the reference page and tests share. Names and labels
// are a contract with dashboards and with the controller's queries.

import type { LimiterKind } from "#flow/rules.ts";

export type MetricType = "counter" | "gauge" | "histogram" | "summary";

interface MetricRow {
  readonly type: MetricType;
  readonly labels: readonly string[];
  readonly about: string;
}

const COMPONENT = ["policy_name", "policy_hash", "component_id"] as const;
const FLUX_METER = [
  "flux_meter_name",
  "policy_name",
  "decision_type",
  "http_status_code",
  "flow_status",
] as const;
const SIGNAL = ["signal_name", "sub_circuit_id", "policy_name"] as const;
const HTTP = ["http_method", "http_status_code", "handler_name"] as const;
const GRPC = ["grpc_type", "grpc_service", "grpc_method"] as const;

export const METRICS = {
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
    about: "FlowEnd calls.",
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
      "Anomalies by kind: input that was ignored, limits that were reached, and decisions by a failure mode.",
  },
  sluice_limiter_missing_labels_total: {
    type: "counter",
    labels: [...COMPONENT, "label"],
    about:
      "Flows that reached a limiter without a label that it reads: the one by which it tells flows apart (`key`), or the one with the number of tokens (`tokens`).",
  },
  sluice_counter_engine_up: {
    type: "gauge",
    labels: ["engine"],
    about:
      "1 while the engine of shared counters (`counters.engine`) answers, 0 while it is away and `on_failure` of each component answers. Absent where each process counts for itself.",
  },
  sluice_counter_engine_transitions_total: {
    type: "counter",
    labels: ["engine", "state"],
    about: "How often the engine of shared counters went `away` and came `back`.",
  },
  sluice_counter_takes_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Flows at shared rate limiters: `granted` from leased tokens or credit and `refused` because the engine had just refused as much, both without a wait; `asked` of the engine.",
  },
  sluice_counter_followed_keys: {
    type: "gauge",
    labels: ["engine"],
    about:
      "Keys of shared rate limiters that this agent follows, because it has leased tokens of theirs or was asked about them just now. At most `counters.lease.max_keys`.",
  },
  sluice_counter_requests_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Requests to the engine of shared counters: `answered`, `failed` (no reply in time, or an error), `skipped` (not sent while the engine is away), `refused` (not sent because too many wait for their replies).",
  },
  sluice_counter_members: {
    type: "gauge",
    labels: [],
    about:
      "Agents that count for each other (`counters.engine: peers`), as this one knows them, itself included.",
  },
  sluice_counter_buckets_moved_total: {
    type: "counter",
    labels: ["way"],
    about:
      "Buckets that changed hands between agents: `received` by this one because it counts them now, or `handed_over`.",
  },
  sluice_counter_hand_overs_missed_total: {
    type: "counter",
    labels: [],
    about:
      "Agents that did not hand over in time when this one joined: what they had counted of its keys may be lost.",
  },
  sluice_counter_copies_lost_total: {
    type: "counter",
    labels: [],
    about: "Messages with copies of buckets (`dist_cache.replica_count`) that did not arrive.",
  },
  sluice_counter_probes_refused_total: {
    type: "counter",
    labels: [],
    about:
      "Datagrams at `dist_cache.memberlist_bind_addr` that did not prove that their sender knows the secret of the group.",
  },
  sluice_counter_slot_ends_total: {
    type: "counter",
    labels: ["engine", "result"],
    about:
      "Ends of shared concurrency slots that the engine of shared counters did not confirm: `kept`, to be sent again when it answers, or `dropped`, because too many were kept already. A slot whose end was dropped expires after `max_inflight_duration`.",
  },
  flux_meter: {
    type: "histogram",
    labels: FLUX_METER,
    about:
      "Values that a policy's flux meter measures in finished flows, by default milliseconds. The policy defines the buckets.",
  },
  invalid_flux_meter_total: {
    type: "counter",
    labels: FLUX_METER,
    about: "Finished flows whose access log record lacks the number that a flux meter measures.",
  },
  sluice_access_log_records_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Records of finished flows, from access logs of proxies and spans of SDKs: `taken`, or not used because of an `unknown_source`, `no_decision`, a `bad_decision` or, without a decision, an `unknown_request`.",
  },
  sluice_flows_forgotten_total: {
    type: "counter",
    labels: [],
    about:
      "Flows that were forgotten because there were too many before a record without a decision could report them: their slots are free when they expire, and flux meters do not measure them.",
  },
  sluice_bad_measurements_total: {
    type: "counter",
    labels: [],
    about:
      "Negative durations and lengths in records of finished flows, where a flux meter asked for them. They are not used.",
  },
  sluice_policies: {
    type: "gauge",
    labels: ["state"],
    about: "Policy documents in force (loaded) and not accepted (refused).",
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
  sluice_peers: {
    type: "gauge",
    labels: [],
    about: "Agents of this agent's group that are in the store, this one included.",
  },
  sluice_peer_records_refused_total: {
    type: "counter",
    labels: [],
    about:
      "Records of agents in the store that were left out: unreadable ones, and those above 10 000 agents.",
  },
  sluice_agent_requests_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Requests of controllers to this agent by result: answered, failed (the answer is an error) or refused (too many at a time).",
  },
  sluice_agent_calls_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Requests of this controller to agents by result: answered, or failed (an error, or no answer in time).",
  },
  sluice_agents: {
    type: "gauge",
    labels: ["reached_by"],
    about:
      "Agents that this controller knows, by how it asks them: through the store, or over a connection that they made.",
  },
  sluice_remote_write_samples_total: {
    type: "counter",
    labels: ["result"],
    about:
      "Samples of this process for the metrics server of `prometheus.address` (agent), by result: sent, refused (by the server) or dropped (there was no room while the server was away).",
  },
  sluice_remote_write_waiting_bytes: {
    type: "gauge",
    labels: [],
    about: "Bytes of samples that wait for the metrics server, at most 16 MiB.",
  },
  sluice_dependency_degraded: {
    type: "gauge",
    labels: ["dependency"],
    about:
      "1 while something that the process depends on is away or incomplete, 0 otherwise. The process stays ready once it has been.",
  },
  sluice_rules_kept: {
    type: "gauge",
    labels: [],
    about:
      "Keys of rules and numbers that stay in force although the store lost them, until a controller has written again.",
  },
  sluice_rules_from_snapshot: {
    type: "gauge",
    labels: [],
    about:
      "1 while the agent judges by the rules of `etcd.snapshot_path` because the store has not answered since its start, 0 otherwise. Absent without that key.",
  },
  sluice_rule_snapshots_total: {
    type: "counter",
    labels: ["result"],
    about: "Writes of the file `etcd.snapshot_path`: success or failure.",
  },
  sluice_leader: {
    type: "gauge",
    labels: [],
    about: "1 while this controller leads and runs policies, 0 while it stands by.",
  },
  sluice_leader_since_seconds: {
    type: "gauge",
    labels: [],
    about: "Unix time since which this controller leads; 0 while it stands by.",
  },
  sluice_metrics_inconsistent_total: {
    type: "counter",
    labels: [],
    about: "Samples left out of a scrape because they contradict this table or each other.",
  },
  http_requests_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests. `handler_name` is the pattern of the route.",
  },
  http_errors_total: {
    type: "counter",
    labels: HTTP,
    about: "HTTP requests answered with status 400 or more.",
  },
  http_requests_latency_ms: {
    type: "histogram",
    labels: HTTP,
    about:
      "Milliseconds until an HTTP reply was written. Buckets: `server.http.latency_buckets_ms`.",
  },
  grpc_server_started_total: { type: "counter", labels: GRPC, about: "gRPC calls that began." },
  grpc_server_handled_total: {
    type: "counter",
    labels: [...GRPC, "grpc_code"],
    about: "gRPC calls that ended, by status code.",
  },
  grpc_server_msg_received_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages received by gRPC calls.",
  },
  grpc_server_msg_sent_total: {
    type: "counter",
    labels: GRPC,
    about: "Messages sent by gRPC calls.",
  },
  grpc_server_handling_seconds: {
    type: "histogram",
    labels: GRPC,
    about:
      "Seconds until a gRPC call ended. Buckets: `server.grpc.latency_buckets_ms`, divided by 1000.",
  },
  certificate_expiry_seconds: {
    type: "gauge",
    labels: ["file"],
    about:
      "Seconds until the certificate that the port uses expires, or the first of its chain; negative afterwards.",
  },
  http2_server_faults_total: {
    type: "counter",
    labels: ["fault"],
    about:
      "Violations of HTTP/2 or of its limits by peers, where Sluice's own HTTP/2 transport serves (`server.grpc.transport`), by kind. Every kind is shown from 0.",
  },
  server_refused_connections_total: {
    type: "counter",
    labels: ["reason"],
    about:
      "Connections that were closed before their first request, over any transport. `too_many`: the limit of open connections was reached, or the last ones are kept for addresses that hold few; `too_many_of_address`: the address of the client, or its IPv6 network of 64 bits, holds its share of them; `slow_first_bytes`, `slow_tls_handshake`, `slow_preface`: the client was too slow; `cleartext_on_tls`, `tls_on_cleartext`: the client used one where the other is expected; `broken_tls_handshake`, `broken_preface` (the start of HTTP/2): failed or aborted; `client_name`: the common name of the client's certificate is not allowed. Connections that clients close without sending anything are not counted. Every reason is shown from 0.",
  },
} as const satisfies Readonly<Record<string, MetricRow>>;

export type MetricName = keyof typeof METRICS;

/** The counter of each kind of limiter. A load ramp counts as a sampler. */
export const LIMITER_COUNTERS = {
  rate_limiter: "rate_limiter_counter_total",
  concurrency_limiter: "concurrency_limiter_counter_total",
  sampler: "sampler_counter_total",
  ramp_sampler: "sampler_counter_total",
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
  /** Whether samples of this metric are used. Others are ignored: a source may ask before it computes expensive ones. */
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
